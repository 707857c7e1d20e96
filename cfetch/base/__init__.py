"""What every room stands on: it knows no other room.

    errors.py     every error in one tree: whose fault, whether trying again can help, the exit code
    events.py     facts that the engine emits              records.py   the documents made of them
    clock.py      the port for time; virtual_clock.py: that of simulations and tests
    secret.py     URLs and tokens that cannot be printed by accident
    refusals.py   what error codes of stores, hubs and TLS mean (a table)
    breaker.py    keeps work away from a failing host or volume (a value)     backoff.py   waits that double
    home.py       the user's home directory, which not every user has
    registry.py   finds plug-ins by their names; nothing in the core imports one
    entry_points.py   those of other distributions, and the error that names one which fails
    schemes.py    the table of URL schemes
    threads.py    starts threads           version.py   the version of cfetch
    config/       options: one table of them, and the layers of their values

When it fails: an error of this room has its exit code; anything else that escapes is a bug in cfetch. A
plug-in that does not load is named with its distribution, and is no bug in cfetch.

Where to change: a new kind of error is a class in ``errors.py``, a new event a class in ``events.py``; a
plug-in that ships with cfetch is a row in ``registry.py``, a URL scheme a row in ``schemes.py``.
"""
