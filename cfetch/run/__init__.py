"""A run on this machine: the steps before it, the frame around it, and the files that it leaves.

    directories.py      where a run's files are: destinations, the state directory, the timeline
    volumes.py          opens the destinations, and makes them into volumes for the engine
    earlier_placements.py    what stands on several volumes, and whose turn it is
    labels.py  store_marks.py    labels by which volumes are known again; a run's mark at a store
    open_manifest.py  fetched_manifest.py    opens a manifest by its name; fetches it from a server or a store
    identifiers.py      finds the list that a digital object identifier stands for
    manifest_reader.py  reads manifests for verbs that download nothing by them
    server_names.py  known_names.py    asks servers for the files' names; those of earlier runs
    listings.py  request_connections.py    what a prefix or a pattern means; connections for such questions
    rejected_rows.py    the faulty rows of a manifest that were skipped, in a file
    result_files.py  metrics_rotation.py    where metrics and failures are written; which metrics are kept
    failed_manifest.py  the failed entries, as a manifest
    fresh_links.py      which ways to a fresh link this run has
    header_hosts.py     which hosts get the user's own headers and token
    catalogue.py        what a sync has put in place, and which versions of it
    host_baseline.py    the baseline of hosts from earlier runs: read before a run, merged after it
    frame.py            the steps around every engine, and the port that an engine implements
    listeners.py        the listeners of other packages that the user names
    local_run.py        the engine of one machine: transport, volumes and pool in an event loop
    traces.py           what a finished get leaves: nothing, where only gets have been
    stream_run.py       the same, whose files a reader in another thread takes from memory
    threads.py          tests before a run that the system permits its threads
    collector.py        makes Python's garbage collector run seldom during a run
    signals.py          the first signal ends a run in good order, the second ends the process
    stoppable.py        coroutines that a signal cancels, for a follower

::

    frame: listen to signals
           engine opens             RunStarted
           engine.bring             the event loop: pool and monitor, until all their tasks have ended
           close metrics            a full disk fails the run here
           settle                   all in place: guard.commit; a fault: does this run still have the plan?
           RunFinished              with the summary, made from the same events

When it fails: the failure of an entry is never raised; summary and exit code tell it. SIGINT, SIGTERM or
SIGHUP closes the attempts under way and records them as ``cancelled``; a second signal ends the process at
once. A run that has lost its plan stops and publishes nothing more. A local fault (disk full, no permission,
metrics that cannot grow) ends it with exit code 3. Without a readable baseline, a run only starts with less
knowledge of its hosts.

Where to change: ``find_destinations`` in ``directories.py`` decides where cfetch keeps its own files;
``app/engines.py`` decides which engine a run has.
"""
