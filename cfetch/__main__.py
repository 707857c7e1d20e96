"""``python -m cfetch`` and the ``cfetch`` command."""

import signal


def main() -> None:
    """Run the command line. A Ctrl-C during its imports ends the process without Python's traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cfetch.cli import app

    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)
    app.main()


if __name__ == "__main__":
    main()
