"""cfetch downloads a very large set of files, whole, verified and without stragglers.

The package is a house of rooms, a folder each. The docstring of a room's ``__init__.py`` says what the room
is for, in which order to read its files, what holds when it fails, and where to change what.
docs/architecture.md shows how the rooms fit together and which way an entry takes through them.

What all rooms share lies beside them:

    errors.py     every error in one tree: whose fault, whether trying again can help, the exit code
    events.py     facts that the engine emits              records.py   the documents made of them
    clock.py      the port for time; virtual time for tests
    secret.py     URLs and tokens that cannot be printed by accident
    breaker.py    keeps work away from a failing host or volume (a value)
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
