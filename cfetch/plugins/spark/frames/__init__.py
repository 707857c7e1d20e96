"""Data frames: the source ``cfetch`` (a manifest), ``download``, the stream ``cfetch.feed``, and shards.

Spark may read a partition many times: for each action, each side of a join, each copy of a task. So a
partition is a share that is brought once: the first reader takes its lock, brings it and leaves a receipt,
and all others answer from the receipt.

::

    read a partition:   receipt there, and its files in place?    -> its records, as rows
                        else take the lock and look again         -> as above
                        else bring the entries that are missing, leave the receipt, release the lock

Read in this order: ``options.py``, ``platform_paths.py``, ``once.py``, ``frame.py`` (the state of a
manifest's frames on disk), ``rows.py``, ``source.py``; then the function for frames of URLs: ``url_rows.py``
(rows as entries), ``pieces.py`` (how tasks bring them), ``frame_words.py`` (errors as users of frames say
it), ``renewing.py`` (fresh links), ``frame_hub.py`` (limits of all tasks, and links from the driver),
``task_log.py`` (what can be seen), ``spread.py`` (which task has which rows), ``download.py``; the changes of
a feed as such rows: ``feed_pull.py`` (a manifest for each trigger), ``feed_source.py``; and the sinks:
``shards.py`` (tar and Parquet files), ``shard_stream.py`` and ``shard_spool.py`` (how their files are
brought), ``shard_store.py`` (in an object store, with ``shard_names.py``), ``shard_sink.py`` (Spark's
commit).

When it fails: the kernel releases the lock of a dead task, and the next reader skips the files that are in
place. The fault of an entry is a row; only a machine that cannot write raises. A
trigger of the stream is a manifest that never changes, so one that Spark repeats has the same rows, and their
files are in place.
"""
