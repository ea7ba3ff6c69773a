"""Checks that a party makes alone, before anything is sent: what is wrong, what would be changed, and what to do."""
