"""Serving a saved model over HTTPS: the hub answers whoever asks for predictions, other parties answer the hub."""
