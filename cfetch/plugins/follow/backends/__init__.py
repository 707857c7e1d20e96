"""Sources of feeds: each keeps the port of ``plugins/follow/source.py``, and passes one suite of tests.

The suite is ``testing/feed.py``. Files on static storage are read where they are written, in
``plugins/follow/server/segments/``.

A backend asks, checks the form of the answers and translates them. It decides nothing about ranges, which
is the lineage's work. All data from a server or a file is treated as hostile.

    opening.py           finds the kind of a feed by the name that a person gives, and opens it
    feed_kind.py         what a kind of feed states about itself
    http.py              the protocol of docs/feed-protocol.md
    observed.py          a source without a log, which cfetch keeps: change_log.py (docs/observed-sources.md)
    package_index.py  couchdb.py  osm.py  delta.py  iceberg.py  cosmos.py  dynamodb.py
    bucket_events.py     such sources, each by its own protocol
    one_range.py         the answers of a feed of one range, for observed.py (pure)
    web.py               asks the server of a feed over HTTP
    kinesis.py           a Kinesis stream; its shards are the ranges (docs/feed-kinesis.md)
    kinesis_shards.py    shards as ranges, sequence numbers as LSNs (pure)
    kinesis_api.py       its calls
    aws.py               the adapter to botocore, in threads

When it fails: it raises ``SourceError`` if another try may help (the backend repeats cheap requests first),
``FeedReplaced`` and ``CheckpointExpired`` if the feed cannot be followed from here, ``HostileFeed`` if the
feed contradicts itself.

To add a backend, write a class with the methods of ``FeedSource`` and a ``FeedKind`` called ``FEED``, its row
in ``base/registry.py``, and a world for the contract suite.
"""
