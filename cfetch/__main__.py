"""``python -m cfetch`` and the ``cfetch`` command."""

from cfetch.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
