"""Measurements on whole models: health reports and benchmarks."""
