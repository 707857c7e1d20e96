"""The optional parts of cfetch. Nothing in the core imports one: each is found by its name.

    formats/    readers for the lists of other programs, Parquet, Metalink, HTML
    follow/     keeps a directory in step with a feed, and publishes feeds
    spark/      the same download as a job on Spark, data frames, tables of metrics
    lab/        measures and tunes: bench, simulation, tune
    monitors/   who watches a run from outside: live page, Prometheus, OpenTelemetry

The names stand in ``cfetch/base/registry.py``, those of formats in ``cfetch/manifest/formats/table.py``. A
plug-in may import the core. Among themselves, ``lab`` stands on ``spark``, ``spark`` on ``follow``, and
these on ``formats`` and ``monitors``; an import contract keeps it so. Another distribution adds a plug-in by
an entry point, with no change here.

When it fails: a plug-in that this installation lacks, or that does not load, is named by the command that
asked for it. No other command notices.
"""
