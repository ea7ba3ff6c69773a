"""Mechanisms: noise on rows, outputs, labels and votes."""
