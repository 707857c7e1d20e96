"""The timeline: plans on disk, guarded against a second execution, rolled back when a run has died.

The rules are those of Apache Hudi's RFC-79, which the files of this room call the RFC.

Read in this order: ``states.py`` (the states of an instant; one rename per change), ``rules.py`` (what may
be done in which state), ``heartbeat.py`` (which owner lives), ``attempts.py`` (where epochs write, and how
they are fenced off; ``emptying.py``), ``lock.py``, ``store.py`` (instants on disk), ``records.py`` (the
contents of their files), ``full_disk_reserve.py`` (room on a full disk); then the verbs: ``execution.py``,
``rollback.py``, ``clean.py``, ``tidying.py`` (after each run), ``archive.py`` (``frozen_plans.py`` removes
manifests).
``table.py`` puts the parts together, ``opening.py`` opens what is there; ``course.py`` looks at other runs.
``files.py`` and ``owner.py`` are the edges to the machine; ``patient_files.py`` does not wait for ever for a
disk. ``bucket_files.py`` is the second home of a timeline: an object store, in which one object holds all
names (``bucket_index.py``).

::

    start, under the table lock:  completed? -> its record      live heartbeat? -> Held, names the owner
                                  else claim a new epoch (one rename), write the first heartbeat
    start, outside the lock:      roll back dead epochs' attempts, salvage useful parts, move to inflight
    run:                          a heartbeat every interval; an owner that could not beat in time looks
                                  whether another has claimed the plan: it claims it again, or stops
    end:                          commit (all in place: completed), release (to be continued), or fail

Two fences make it safe, and neither is a lock or a clock. First, a change of state is a rename from a name
that holds the epoch, so a run whose plan was taken over cannot change it any more. Second, the run that takes
a plan over removes the dead epoch's directories, so the old run can neither begin nor publish a file.
Heartbeats and the table lock only decide when to try, and tell people who holds a plan.

If one of several volumes is away, hangs or refuses just then, the run goes on without that fence there; what
the dead run has left stays, with nothing else to remember it, and the next run that finds it removes it.
Until then an owner that only stood still may, once it wakes up, publish there what was whole and verified:
until its heartbeat, which is lost at once by its own clock, has let it look at the timeline, and its tasks
have heard of that. These are files of the same plan. A check before each group of files would not do: tasks
have no timeline, and an owner can stand still between a check and its rename.

When it fails: a crash at any step leaves an instant in one of the states of ``states.py``, and the next run
continues from there; no code here ever looks at a final path. An observer judges a heartbeat by its counter,
on its own monotonic clock; a process of this machine whose pid is gone is dead at once.

Where to change: what ``plan clean`` does with an instant, and the reason it gives, is ``to_clean`` in
``rules.py``; ``clean.py`` carries it out: removable plans that nobody runs are rolled back once they are
older than the delay, completed ones go to the archive, immutable ones wait. ``_sweep`` in ``tidying.py``
and ``_undo`` in ``rollback.py`` remove files from the disk (directories of dead attempts, old heartbeats,
frozen plans of completed instants). The room was tested on ext4 and tmpfs, not on network file systems.
"""
