"""Hyperparameter search for kdlgt."""
