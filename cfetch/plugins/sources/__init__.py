"""Schemes of URLs beyond http and object stores: each is one file, which nothing imports.

The row of a scheme in ``base/schemes.py`` names its opener. The opener gets a ``SourceContext``
(``wire/transport.py``) and returns ``FileTransport(source)`` of ``wire/source.py``, so that a source only
states the size and the version of a file and sends it from a byte on. Ranges, conditions, retries, resuming
and the limits of hosts then work as they do for http.

    ftp.py   files of FTP servers, by aioftp

::

    URL -> RunTransport finds the row -> opener -> FileTransport -> the source's own connection

When it fails: every error is one of ``base/errors.py`` and its text is in cfetch's own words; a server's own
reason is quoted only where it can hold no password. A library that is missing fails the entry, and the
message names the extra.

Where to change: a new scheme is a file here, its test, its row, and its extra in ``pyproject.toml``.
"""
