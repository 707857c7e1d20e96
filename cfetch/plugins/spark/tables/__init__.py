"""The metrics of many runs as Parquet tables: ``cfetch metrics load`` writes them for any Parquet reader.

::

    load:   take the lock, remove the folder of a dead load, make a folder          store.py
            a task for some metrics files: write their rows there                   writing.py
            for each run: rename its files, the run's own row last                  store.py

Read in this order: ``columns.py`` (the tables, as docs/metrics-tables.md has them), ``writing.py``,
``store.py``, ``load.py`` (the driver), ``tables.py`` (the tables as data frames, and common questions).

When it fails: rows count only if the row of their run names the load that wrote them, so the tables have
either the old or the new version of a run. A task may be repeated, run twice, or die. A load that dies while
it renames leaves files that do not count; the next load of these runs removes them.
"""
