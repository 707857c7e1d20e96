"""Writes bytes to volumes: as parts, which become files that can be trusted.

The engine knows a volume only by the port in ``volume.py``. A part is written beside the file that it
becomes, hashed on the way, and gets its final name in one step when its size and hash fit; nothing else
ever gets one.

Read in this order::

    volume.py             the ports: ``Volume``, ``Part``, ``Sink``
    part.py               one entry's bytes: running hash, verification
    part_file.py  joining.py    the file of a part, step by step; one file out of several parts
    running_hash.py       the hash of a large one, beside the event loop
    held_ranges.py        which bytes are held while several segments are brought (pure)
    resume.py             what a part of an earlier run is good for: its name and its note (pure)
    staging.py            the directory in which a run writes its parts, and what dead runs have left
    publisher.py          final names, in groups, in an order that survives a power cut
    directory.py          a directory, beneath a held descriptor, no symlink followed
    sources.py  etags.py  batch_records.py    what it notes of published files, and of batches that are whole
    standing.py           which files stand there already, many at a time
    directory_volume.py   adapts it to the port; disk.py carries its steps out, in the loop or in a thread
    descriptors.py        what a run holds open
    object_store.py  object_source.py   a bucket as a destination; listings and signed links of sources
    object_part.py  object_volume.py    adapt it to the port
    tree.py               a directory to read only (``cfetch verify``)
    files.py              the one way to write a file of cfetch's own

::

    durable publishing:  write small files that came whole, 64 at a time, to parts
                         flush the group's parts (syncfs) -> rename each -> report the group before as done
                         the last flush comes before the run ends

When it fails: kill -9 leaves parts, never half a file. A part with a hash in the manifest proves itself in
the end. Without one, a whole part counts on the boot that wrote it, and others need their note: a strong
ETag of the same object, and no restart since. A part in segments says what it holds only in its note, which
is renewed as it grows; without it the part is thrown away. A disk that hangs is abandoned after a time-out,
and what it does late is undone.

Where to change: the name of a part is ``part_name`` in ``resume.py`` (its first letter says what kind it
is); what a later run may continue is ``fits`` there; the write order is ``publisher.py``.
"""
