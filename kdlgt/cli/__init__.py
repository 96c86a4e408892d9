"""The command line: ``kdlgt = "kdlgt.cli:main"``."""

from kdlgt.cli.app import main

__all__ = ["main"]
