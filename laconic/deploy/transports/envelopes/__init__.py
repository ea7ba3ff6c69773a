"""Envelopes: sealed files between parties that have no network between them."""
