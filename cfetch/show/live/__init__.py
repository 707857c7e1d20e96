"""The display of a run under way: a listener of events that draws a live view, writes lines, or is quiet.

The engine does not know this room. All that is shown follows from events, so the tests replay recorded events
and compare frames.

    open.py         chooses the kind of view: a terminal that a person watches gets the live view
    view.py         reduces events to the values that are shown (pure)
    pace.py         files per second, by host, and failures by kind (pure)
    prediction.py   whether and when a run will end; time_left.py: its arithmetic (pure)
    files_under_way.py  one row for each file, those at risk first (pure)
    live.py         a frame for each Progress event; no thread and no timer of its own
    paint.py        one frame for a given width and height
    rows.py  volumes.py  executors.py      its tables: attempts, volumes, a cluster's executors
    hosts.py        the hosts that are slow now (pure); host_rows.py: their table
    terminal.py     a terminal for which no download waits
    trouble_texts.py    what a person reads of a trouble (pure)
    fact.py  facts.py   reduces events to facts for a log: trouble at once, but not too many lines
    event_facts.py      the facts of troubles, notes and batches
    verbose_facts.py    those for ``--verbose``
    lines.py        facts as plain lines, JSON lines, or errors only
    closing.py  closing_tables.py   the last lines of a run           preview.py  the lines of ``--dry-run``
    bar.py          a progress bar for a walk over many files

::

    event -> View.apply -> frame -> Terminal      live
    event -> Facts.reduce -> text or JSON -> stderr   plain, json, quiet

When it fails: nothing here ends a run. A terminal that stops reading misses frames, and no download waits
for it; nothing more is written to a closed stderr. Names of files are printed without control characters and
bidi overrides.

Where to change: a new event needs a line in ``facts.py`` (in a table of events) and, if the live view is to
show it, in ``view.py``.
"""
