"""Parties on different machines: their folders, what they say to each other, and how a run is hosted."""
