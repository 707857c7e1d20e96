"""What runs show: documents and tables of their results, the live view of a run, the page.

A ``*_document.py`` is a value that ``--json`` prints; a ``*_view.py`` only draws one. Listeners take the
engine's events; nothing here is called by the engine.

Listeners of a run::

    metrics.py          the metrics file: a header, then a JSON object for each entry
    metrics_reading.py  reads such files
    summary.py          makes summary and exit code from events
    counts.py           the one tally of entries, bytes and retries (pure)
    volume_tally.py     the same for each of several volumes
    digest.py           the sums of many records, which a task makes for the driver (pure)
    event_records.py    the events that the metrics keep (pure)
    causes.py           failures grouped by cause (pure)
    ending.py  last_file.py    the cause that decided the end of a run (pure); ending_text.py: in words
    remedies.py         what a person does about failures (pure)
    makespan.py         how much shorter mitigation has made the run: a replay (pure)
    left_alone.py       how long an entry with several attempts would have held its slot (pure)
    saved_time.py       how much time a cancelled attempt saved for its file (pure)
    wasted_bytes.py     the bytes that are in no file at the end (pure)

Past runs and other verbs::

    analysis.py  slow_files.py  document.py  tables.py     ``cfetch report``
    plan_view.py                                           ``cfetch plan``, and ``--dry-run``
    volume_view.py                                         ``cfetch volume``
    doctor_view.py                                         ``cfetch doctor``
    format.py                                              numbers and names as people read them, everywhere
    table_text.py                                          names kept apart, columns, small graphs (pure)

Rooms within: ``live/`` (dashboard and lines of a run under way) and ``page/`` (one HTML file).

When it fails: a metrics file that cannot grow ends the run with exit code 3; the file of a killed run can be
read except for its last, torn line. Tracing and views never fail a run. Nothing written here holds a URL's
query, a header or a token.

Where to change: the exit code of a run is ``exit_code`` in ``summary.py`` (of an error:
``base/errors.py``); a field of a file's record is in ``base/records.py``; how a size or a rate looks is
``format.py``.
"""
