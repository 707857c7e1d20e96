"""A run on this machine: what is opened before it, what goes on round it, what is kept after it.

    directories.py      where a run's files are: destinations, the state directory, the timeline
    volumes.py          the destinations opened, staged in, and made into volumes for the engine
    open_manifest.py  server_names.py    a manifest by its name; the names that servers state for its files
    listings.py         what a prefix or a pattern means: objects of a store, files of a repository
    index_tree.py       the files below a directory index
    rejected_rows.py    the faulty rows of a manifest that were skipped, in a file
    result_files.py     where metrics and failures are written
    failed_manifest.py  what failed, as a manifest
    fresh_links.py      which ways to a fresh link this run has
    header_hosts.py     who gets the user's own headers and token
    catalogue.py        what a sync has put in place, and which versions of it
    host_baseline.py    what earlier runs have learned about hosts: read before, merged after
    frame.py            what goes on round every engine, and the port that an engine keeps
    local_run.py        the engine of one machine: transport, volumes and pool in an event loop
    threads.py          the threads that a run needs: proved before it begins
    collector.py        garbage in cycles is looked for seldom meanwhile
    signals.py          the first signal ends a run in good order, the second ends the process

::

    frame: listen to signals
           engine opens             RunStarted
           engine.bring             the event loop: pool and monitor, until nothing of them is left
           close metrics            a full disk fails the run here
           settle                   all in place: guard.commit; a fault: is the plan still ours?
           RunFinished              with the summary, made from the same events

When it fails: nothing that happens to an entry is raised; summary and exit code say it. SIGINT, SIGTERM or
SIGHUP closes what is under way and records it as ``cancelled``; a second signal ends the process at once. A
run that has lost its plan stops and publishes nothing more. A local fault (disk full, no permission,
metrics that cannot grow) ends it with exit code 3. Without a readable baseline the run only starts less
well informed.

Where to change: where cfetch keeps its own files is ``places`` in ``directories.py``; which engine a run
has is decided in ``app/engines.py``.
"""
