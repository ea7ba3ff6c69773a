"""Envelopes: one file from one party to one other, with a readable cover, signed, encrypted and compressed."""
