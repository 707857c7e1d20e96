"""A run while it goes on: a listener of events that draws a live view, or writes lines, or stays quiet.

The engine does not know this room. Everything that is shown follows from events, so the tests replay recorded
events and compare frames.

    open.py         which kind of view: a terminal that is watched gets the live one
    view.py         events reduced to what there is to show (pure)
    live.py         a frame for each Progress event; no thread and no timer of its own
    paint.py        one frame for a given width and height
    rows.py  volumes.py  executors.py      its tables: attempts, volumes, a cluster's executors
    hosts.py        the hosts that are slow just now (pure); host_rows.py: their table
    terminal.py     a terminal that is never waited for
    facts.py        events reduced to what a log says: trouble at once, but never a flood
    lines.py        facts as plain lines, JSON lines, or errors only
    closing.py      the last words of a run           preview.py  what ``--dry-run`` says
    bar.py          how far a walk over many files has come

::

    event -> View.apply -> frame -> Terminal      live
    event -> Facts.reduce -> text or JSON -> stderr   plain, json, quiet

When it fails: nothing here ends a run. A terminal that stops reading misses frames, and no download waits
for it; nothing more is written to a closed stderr. Names of files are printed without controls and bidi
overrides.

Where to change: a new event needs a line in ``facts.py`` (its table of events) and, if it is to be seen
live, in ``view.py``.
"""
