"""Brings entries to their end: a pool of workers, each with one entry in hand, watched by a monitor.

The engine asks servers through ``wire/``, writes through the volumes of ``storage/``, asks ``straggler/``
who is too slow and ``placement/`` where batches go. It decides none of that itself, calls no dashboard, and
emits events.

    pool.py             workers, monitor, volumes' tasks; ``files_in_place.py``: first, what stands already
    policies.py         the policy that the settings name; ``pool_inputs.py``: the values from outside
    dispatch.py         what a worker does next; without anything it waits in ``idle_workers.py``
    bring_entry.py          brings the entry in a worker's hands; ``cancellation.py``: if it is cancelled
    commitment.py       the port to the volumes: which one an entry goes to, when it is published
    committing.py       chooses the commitment: ``single.py`` (each file by itself) or ``batches/``
    streaming.py        commits to memory, in order; ``stream_window.py``: as far ahead as it permits (pure)
    publishing.py       the volumes' own tasks; ``entry_records.py``: records
    stop_switch.py      early ends; ``side_tasks.py``: by an unforeseen error in a task
    schedule.py         which entry starts next: the largest first, a queue per host (pure)
    hosts.py  widths.py    what each host bears: windows, pauses, breakers; ``connection_limit.py``
    host_state.py       what is known of one host (pure)
    transfer.py         the state of the entry in a worker's hands: part, sources, tries
    fetcher.py          the tries of the entry, one after the other; ``failed_tries.py``: their events
    links.py            a fresh link before a try, if the old one has expired; link_life.py: when it does
    fetching.py         one try: ask, judge, stream; ``attempt.py``: its state for the monitor, its record
    odd_bodies.py  unframed_bodies.py    bodies that are not just the file's bytes, or have no length
    refused_replies.py  the errors of replies that are not accepted
    error_bodies.py    errors, pages and pointers that are sent in the place of a file (pure)
    doubts.py  notes.py    what a person should know of files that were taken
    attempts_under_way.py          the attempts under way: which started, which ended, what they have brought
    segments.py         idle workers help entries under way; ``entry_helpers.py``: the helpers of one entry
    segment_split.py    which entries idle workers help, and from which byte on (pure)
    second_replies.py   a second reply for a whole file beside the first one
    link_looks.py       whether TCP shows that a file gains by more connections
    monitor.py          stragglers, stalls, progress; ``rate_floor.py``: what --min-rate asks for
    batches/            entries that are committed together, on several volumes
    placement/          which volume a batch goes to (pure)

::

    worker:  while entry = dispatch: next that its host and its volume bear:
                 bring_entry: in place already: skip
                              until whole and verified: attempt; ``wire/next_step.py`` decides after a failure
                              (if it must wait: back to its queue)
                 commitment: publish; entry_records: record

When it fails: the stated reason of a cancellation and the task's own count say what it means, never the
exception's type, so a straggler's end is not taken for the run's. Bytes that had arrived are kept. An entry
fails alone; a local fault ends the run, and so does an unforeseen error in any task. When ``run`` returns, no
task of the run is left.

Where to change: what a 429 does to a host is in ``hosts.py``; which entry is next, in ``schedule.py``, and
which batch, in ``batches/arrivals.py``, which tasks that share a plan use too; which entry gets help, in
``segment_split.py``.
"""
