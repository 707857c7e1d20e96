"""``python -m cfetch`` and the ``cfetch`` command."""

from cfetch.cli.app import main

if __name__ == "__main__":
    main()
