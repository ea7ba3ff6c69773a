"""Encoders: a few numbers per row that stand for its columns."""
