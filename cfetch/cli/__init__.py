"""The command line: one file per verb, each options -> call -> render. There is no logic here.

    app.py          the verbs, the exit codes (decided here, once) and how errors look: one message
    options.py      makes flags of ``base/config/option_table.py``, so that none can drift from its key
    verb_options.py those of other verbs than download; pairs.py: values of ``--set``
    help.py  short_help.py         --help and --help-all      manual.py  the manual page, man/cfetch.1
    completion.py   the completion of a shell
    foreign_flags.py    flags of curl, wget, aria2 and rclone, in cfetch's words
    hints.py        what to write instead
    streams.py      makes stdin, stdout and stderr safe before anything uses them
    output.py       prints results and messages
    download.py  get.py  sync.py  plan.py    verbs that download
    to_stdout.py    files to standard output, for download
    manifest.py  verify.py  report.py        verbs that make and check lists, and explain past runs
    volume.py  doctor.py                     volumes as a set; what a bug report needs

::

    guard the streams
    resolve flags over environment over file         ConfigError names every fault
    call the use case of ``app/`` (imported only now: ``--help`` answers at once)
    print its document (``--json``) or its lines; exit with its code

stdout carries results only; with ``--json`` exactly one document. Progress, notes and errors go to stderr.

When it fails: an error of ``base/errors.py`` brings its own exit code; anything else is a bug and exits
with 70. If the reader of stdout has gone (``| head -1``), the exit code is 141, without a message; a closed
stderr never ends a job.

Verbs of plug-ins stand in their rooms (``plugins/*/verb_*.py``), and are made of the same parts.

To add a verb: its file, and its row in ``base/registry.py``; its use case in ``app/`` or in the plug-in.
"""
