"""Supervised models: networks, linear models, and what several methods fit on top of others."""
