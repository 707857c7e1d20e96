"""Who watches a run from outside: a live page, Prometheus, OpenTelemetry. All are listeners of its events.

    serving.py       opens the listeners of ``--serve`` and ``--metrics-textfile``
    page_server.py   the page and ``/metrics`` over HTTP (how it is served: ``wire/serving.py``)
    page_state.py  page_tables.py    what the page shows (pure)
    run_numbers.py   the numbers of runs for monitoring (pure)
    openmetrics.py   these numbers for Prometheus
    telemetry.py     the same, and tracing.py's span, for OpenTelemetry

::

    event -> RunNumbers -> /metrics, the textfile, OTLP
    event -> PageState -> live numbers each half second, the whole page seldom -> readers

When it fails: nothing here ends a run or delays a download. A fault is one line among the run's lines, with
its place; a reader who has gone is forgotten.

Where to change: a new number is a row in ``run_numbers.py``.
"""
