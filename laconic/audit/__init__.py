"""Attacks to run against one's own upload before it is sent: what its receiver could find out."""
