"""Runs by mail: parties that are never connected answer by envelope, each in its own time."""
