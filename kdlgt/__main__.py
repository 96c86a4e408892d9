"""``python -m kdlgt``."""

from kdlgt.cli import main

if __name__ == "__main__":
    main()
