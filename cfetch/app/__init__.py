"""The use cases, a file each: what a verb of the command line does, without its flags and its printing.

    download.py          prepares a plan; the one place where rooms are wired
    frozen_lists.py      freezes the lists that it is made of
    prepared.py          puts a prepared plan on the timeline, and runs it
    engine_plan.py       a frozen manifest as each engine takes it
    engines.py           which engine brings a plan
    get.py               a plan of one or a few URLs
    plans.py             the timeline for people: list, show, roll back, clean, archive
    sync.py              directories like a source that has a list: what changed again, what has gone deleted
    follow.py            a directory in step with a feed: one removable plan after another
    tune.py              past runs replayed, the best straggler options of them chosen
    verify.py            trees hashed again and compared with their manifest, both ways
    manifest_build.py    a manifest from a list of URLs or a directory
    manifest_check.py    what a manifest holds, or what is wrong with it; and conversion

::

    prepare:  open the manifest, freeze it, look for room
    run:      schedule the plan, or find it pending       timeline/
              start it in a new epoch, or Held            timeline/execution.py
              run.frame round an engine (engines.py)        brings entries to their end
              summary; a completed plan's frozen manifest is removed

    follow:   the step that a dead follower was at, then for ever:
              gather changes -> rounds -> journal.begin   the whole step on disk before its first round
              each round: deletes, then a plan            a file that cannot be had is pending
              journal.end -> the checkpoint is in force

When it fails: ``prepare`` has changed nothing but files of its own, which go with it. A run that is
interrupted, or in which entries fail, gives its plan back, and the same command goes on. Of two runs of one
plan the second is refused (``Held``, exit code 4). A follower that died repeats the very round it was at,
whatever the feed says now.
"""
