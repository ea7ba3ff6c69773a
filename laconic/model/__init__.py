"""Models after training: saved, loaded, asked with or without everyone, shrunk and grown."""
