"""The command line: one file per verb, each options -> call -> render. There is no logic here.

    app.py          the verbs, the exit codes (decided here, once) and how errors look: one message
    options.py      flags made from the table of ``config/settings.py``, so that none can drift from its key
    streams.py      stdin, stdout and stderr made safe before anything uses them
    download.py  get.py  sync.py  plan.py  follow.py    what downloads
    manifest.py  verify.py  feed.py            what makes, checks and publishes
    report.py  tune.py  metrics.py  bench.py   past runs, and what mitigation is worth

::

    guard the streams
    resolve flags over environment over file         ConfigError names every fault
    call the use case of ``app/`` (imported only now: ``--help`` answers at once)
    print its document (``--json``) or its lines; exit with its code

stdout carries results only; with ``--json`` exactly one document. Progress, notes and errors go to stderr.

When it fails: an error of ``cfetch/errors.py`` brings its own exit code; anything else is a bug and exits
with 70. A reader of stdout that has gone away (``| head -1``) ends it with 141, without a word; a closed
stderr never ends a job.

To add a verb: a file here, a line in ``app.py``, its use case in ``app/``, and its document in ``report/``.
"""
