"""The metrics of many runs as Parquet tables: ``cfetch metrics load`` writes them for any Parquet reader.

::

    load:   take the lock, remove the files of dead loads                           store.py
            cut metrics files into chunks at line ends                              chunks.py
            a task for some chunks: write their rows as new files                   writing.py
            for each run: one rename makes its new rows the current ones            store.py

Read in this order: ``columns.py`` (the tables, as docs/metrics-tables.md has them), ``chunks.py``,
``writing.py``, ``store.py``, ``load.py`` (the driver), ``tables.py`` (the tables as data frames, and common
questions).

When it fails: rows count only if the row of their run names the load that wrote them, so the tables have
either the old or the new version of a run. A task may be repeated, run twice, or die; the next load removes
the files that no run names.
"""
