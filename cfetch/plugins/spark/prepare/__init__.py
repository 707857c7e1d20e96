"""Manifests of any size, validated by Spark and frozen as shares: the driver never holds an entry.

::

    units     cut JSON Lines and Parquet into parts of some 32 MB; count lines           rows.py
    rows      check rows as one machine does: Spark writes entries, faults, hashes       rows.py
    judge     compare entries with equal hashes: drop repeats, mark those that clash     tasks.py
    cut       sum up hosts, hash entries into pieces, divide the pieces among shares     cut.py
    write     sort the entries by share, and write the share files                       tasks.py
    about     one file, written last, describes the plan; without it there is no plan    prepared.py

Read in this order: ``manifests.py`` (the steps, on the driver), ``rows.py`` and ``tasks.py`` (the steps in
tasks, without Spark), ``cut.py`` (its dealing is pure), ``prepared.py`` (the resulting plan). ``large.py``
decides for which manifests ``cfetch download`` uses Spark.

When it fails: with one fault in a manifest there is no plan, and the table of rejected rows has every
fault. Spark commits what it writes between the steps, and share files have hidden names until they are whole,
so tasks may be repeated, run twice, or die. The next preparation removes what a dead one has staged.
"""
