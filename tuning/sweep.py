"""Hyperparameter search: ``python tuning/sweep.py CONFIG``; ``--help`` explains the options."""

from kdlgt_tuning.cli import main

if __name__ == "__main__":
    main()
