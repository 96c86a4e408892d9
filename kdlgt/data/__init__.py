"""Data sets: what they are, how they are read, split and prepared."""
