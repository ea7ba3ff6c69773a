"""Transports: how a question reaches a party."""
