"""A feed as files, for publishers who have only static storage (docs/feed-segments.md).

A segment is a file with the changes of one range, in the order of their LSNs. An index names the ranges and
their segments. Readers poll the index and read segments from an offset; no server runs.

Read in this order::

    index.py     the index: ranges, and which file has which LSNs (pure)
    files.py     where these files are: a directory, or a prefix of URLs
    source.py    reads them: a ``FeedSource``, as the sources in ``plugins/follow/backends/``
    writer.py    publishes changes as segments; rolls, splits and merges ranges
    disk.py      the writer's steps on disk, one by one, so that a test can stop it anywhere

When it fails: a writer that dies anywhere leaves a whole feed, because a change of shape is one replacement
of the index. What a reader gets from a directory or a server is treated as hostile.

Where to change: the form of the index is in ``index.py``; the size at which a segment is closed in
``writer.py``.
"""
