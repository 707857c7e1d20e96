"""cfetch as a library: ``import cfetch`` offers the names of this room, and imports none before it is used.

    downloads.py    download and get, and their twins for asyncio: prepare -> run -> summary, as the verbs do
    stream.py       files as bytes in memory, in order, with ``for`` and ``async for``
    own_thread.py   a job in a thread of its own, which Ctrl-C or a cancellation ends in good order
    own_session.py  a program's own session of aiohttp, lent to a job
    entry.py        ``Entry``: one file to download, with the keys of a manifest's entry
    sources.py      a manifest, entries or a data frame -> a plan; and the entries of a manifest
    recorded.py     the runs of metrics files, and the settings of a configuration file
    keywords.py     the usual keywords, as settings
    readable_settings.py    ``Settings``, with a docstring for each option
    words.py        messages with keywords in place of flags
    progress.py     the bar of ``progress=True``
    notebook.py     a bar in a notebook, made from events

The library does the same as the command line: ``app/download.py`` and ``app/get.py`` prepare a plan, and
``Prepared.run`` runs it. The room only turns Python values into the values that these take.

Each job has a thread of its own. So it works where an event loop is running, as in a notebook, and installs
no signal handler, which only the main thread may do. Nothing is printed, no ``CFETCH_`` variable is read.

When it fails: an error before the first request is raised as it is, and nothing was downloaded. If files are
missing at the end of a run, ``Incomplete`` has the summary. An error of the caller's own listener ends the
run in good order, and is raised then. After a second Ctrl-C the caller goes on at once, and the thread ends
as soon as it can.

Where to change: the public names are in ``cfetch/__init__.py``, and ``tests/api/`` holds their signatures.
"""
