"""The reference feed server: ``cfetch feed serve`` publishes a directory, or a JSON Lines file, as a feed.

It exists so that the protocol can be tried and tested against a server that really splits and merges ranges.

    process.py             the process: listens, looks for changes again and again, ends in good order
    scan_timer.py            when to look again: after some time, or when the system tells of a change
    handler.py             HTTP to JSON (docs/feed-protocol.md) and the files themselves; decides nothing
                           (how it is served: cfetch/wire/serving.py)
    store.py               ranges, changes, files as last seen: one transaction a call; drops old changes
    database.py            the SQLite file: one writer, and reads that wait for no change
    range_table.py         the feed's ranges: split, merged, closed, and their descent
    tree_publisher.py      a directory, compared with how it was last seen
    source_root.py         is that the directory that was published, and are its disks mounted?
    stream_publisher.py    a JSON Lines file that is appended to
    segments/              the same feed as files for static storage (docs/feed-segments.md)
    asked_feed.py          a feed under check: each answer must follow the protocol
    conformance.py         checks any feed server against the protocol

::

    publish loop:  walk the source in batches of a thousand entries at most
                   store.publish(changes)    one transaction, flushed before any reader sees it

When it fails: any client that reaches the port can ask, but cannot keep others from asking. An LSN that a
reader may have seen is never given to another change, not even after a power cut. An interrupted walk is
simply continued. A writer of segments that dies anywhere leaves a whole feed, because a change of shape is
one replacement of the index.
"""
