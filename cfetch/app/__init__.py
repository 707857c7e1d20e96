"""The use cases, a file each: what a verb of the command line does, without its flags and its printing.

    download.py          prepares a plan; the one place where rooms are wired
    planned.py  given.py prepares a plan that is on the timeline already; of entries that a caller has
    free_space.py              the space that a plan needs, against the space of its volumes
    foreseen_space.py          before a run over several volumes: whether all of its batches will find room
    frozen_lists.py      freezes the lists of which the plan is made; names_from_servers.py: named by servers
    prepared.py  several_machines.py   runs a prepared plan; with other machines
    previews.py          what a run would do
    plan_on_timeline.py  puts a plan on the timeline, and starts it there
    engine_plan.py       a frozen manifest in the form that each engine takes
    engines.py  task_engines.py   which engine brings a plan; those that cut it for many tasks
    process_count.py     how many processes of this machine share a plan
    stream.py            prepares files for a reader who takes them from memory
    get.py               a plan of one or a few URLs
    plans.py             the timeline for people: list, show, roll back, clean, archive
    sync.py              makes directories like a source with a list: fetches changes, deletes gone files
    delete_limit.py      how many files may be deleted because a source lacks them (pure)
    verify.py            hashes trees again and compares them with their manifest, both ways
    work_ahead.py        several threads work on a row of items; the results come in its order
    volume_set.py        which files are on which volume; volume_moves.py: batches move between volumes
    volume_pauses.py  volume_counts.py    pauses of volumes; what stands there is counted again
    manifest_build.py    a manifest from a list of URLs or a directory
    doctor.py  installed.py  machine_limits.py   what a bug report needs: versions, limits, what is reached
    manifest_check.py    what a manifest holds, or what is wrong with it; and conversion

::

    prepare:  open the manifest, freeze it, look for room
    run:      schedule the plan, or find it pending       timeline/
              start it in a new epoch, or Held            timeline/execution.py
              run.frame around an engine (engines.py)       brings entries to their end
              summary; a completed plan's frozen manifest is removed

When it fails: ``prepare`` has changed nothing but its own files, and it removes these. A run that is
interrupted, or in which entries fail, gives its plan back, and the same command goes on. If two runs want one
plan, the second is refused (``Held``, exit code 4).
"""
