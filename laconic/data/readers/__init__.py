"""Readers: a party's rows from files, frames and databases."""
