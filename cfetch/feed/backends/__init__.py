"""Sources of feeds: each keeps the port of ``feed/source.py`` and passes one suite, tests/feed/contract.py.

A backend asks, checks the form of what comes and translates. It decides nothing about ranges: that is the
lineage's matter. Whatever a server or a file says is treated as hostile.

    opening.py           from the name that a person gives (URL, directory, kinesis://) to a source
    http.py              the protocol of docs/feed-protocol.md
    serial.py            a list under one growing serial: a feed of one range
    segments.py          files on static storage (docs/feed-segments.md)
    segment_index.py     their index: ranges, and which file has which LSNs (pure)
    segment_files.py     where these files are: a directory, or a prefix of URLs
    kinesis.py           a Kinesis stream; its shards are the ranges (docs/feed-kinesis.md)
    kinesis_shards.py    shards as ranges, sequence numbers as LSNs (pure)
    kinesis_api.py       the adapter to botocore, in threads

When it fails: ``SourceError`` where another try may help (repeated here first, where that is cheap),
``FeedReplaced`` and ``CheckpointExpired`` where the feed cannot be followed from here, ``HostileFeed``
where it contradicts itself.

To add a backend: a class with the methods of ``FeedSource``, a line in ``opening.py``, and a world for the
contract suite.
"""
