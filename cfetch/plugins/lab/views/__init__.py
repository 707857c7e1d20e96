"""What the laboratory prints: documents for machines, tables for people.

    bench_document.py  bench_view.py              ``cfetch bench``
    junit.py                                      its verdict for CI systems
    clean_view.py                                 ``cfetch bench --clean``
    simulation_document.py  simulation_view.py    ``cfetch bench --simulate``
    tuning_document.py  tune_view.py              ``cfetch tune``

A ``*_document.py`` is a value that ``--json`` prints; a ``*_view.py`` only draws one.

When it fails: nothing here fails but the terminal's width, and a table is then cut, never wrapped.

Where to change: a document's field comes with its JSON Schema in ``cfetch/schemas``, which
``python -m tests.show.schema_files`` writes anew.
"""
