"""What the papers claim, and what we measure."""
