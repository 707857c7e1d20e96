"""Writes bytes to volumes: as parts, which become files that can be trusted.

The engine knows a volume only by the port in ``volume.py``. A part is written on the volume of its file, and
hashed on the way. When its size and hash are right, it gets its final name in one step; nothing else ever
gets a final name.

Read in this order::

    volume.py  volume_values.py    the ports ``Volume``, ``Part``, ``Sink``; what a volume says
    part.py  part_state.py  spare_memory.py   one entry's bytes, verified; memory that is used again
    running_hash.py  file_hash.py   a hash beside the loop; the hash of a file that is there
    part_file.py  joining.py    the file of a part, step by step; one file joined from several parts
    held_ranges.py        which bytes are held while several segments are brought (pure)
    resume.py             whether a run may continue an earlier part: its name and its note (pure)
    staging.py  salvage.py  lent_parts.py   a run's parts; those of dead runs; both lent to another volume
    publisher.py          gives final names, in groups, in an order that survives a power cut
    state_format.py       which version's state a directory holds
    directory.py  name_folding.py    a directory, beneath a held descriptor; which names are one file there
    refusals.py           what it means that the system refuses a call for one file (pure)
    lacking.py  file_system.py    what a file system may lack, and what is given up then; asks one
    source_records.py  sources_in_state.py  etags.py  batch_records.py
                          its records of published files and of committed batches
    standing_files.py  standing_proofs.py    files in place, and what proves that they are the entries'
    moves.py  batch_record_edits.py          moves; records amended
    memory_volume.py      a volume of files that a reader takes from memory
    recorded_files.py  counted_files.py    how much stands on volumes by their records; files without a record
    directory_volume.py   adapts a directory to the port
    disk.py  guarded_disk.py    carry its steps out: at once, or in a thread of their own
    descriptors.py  hanging_calls.py  occupancy.py    descriptors; calls that may hang; who is at work here
    tree.py               trees that are only read
    buckets/              object stores as volumes and as sources
    files.py  outputs.py  group_rights.py  group_sharing.py   own files; those that the user names; groups
    own_databases.py  generations.py    SQLite; a tree at a moment
    locks.py  lock_holders.py    locks of the kernel; who has one, and for how long
    claims.py             who may delete what a source no longer has

::

    durable publishing:  write small files that came whole, 64 at a time, to parts
                         flush the group's parts (syncfs) -> rename each -> report the group before as done
                         the last flush comes before the run ends

When it fails: kill -9 leaves parts, never half a file. A part with a hash in the manifest is verified in
the end. Without a hash, a whole part counts on the boot that wrote it, and other parts need their note: a
strong ETag of the same object, and no restart since. For a part in segments, only its note says which bytes
it holds; the note is renewed as the part grows, and without a note the part is removed. A disk that hangs is
abandoned after a time-out, and its late results are undone.

Where to change: ``part_name`` in ``resume.py`` makes the name of a part (its first letter is its kind);
``fits`` there decides what a later run may continue; ``publisher.py`` decides the write order.
"""
