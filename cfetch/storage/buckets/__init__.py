"""Object stores as volumes, as sources, and as a shared state. Only this room knows obstore.

    object_store.py                      connections and logins of a store; what an error of it means
    store_calls.py                       the calls under way at a store, and their end
    stores.py                            what each kind of store has of its own: variables, login
    logins.py                            logins that the tools of AWS, Google and Microsoft keep
    object_source.py  object_listing.py  objects as a source; listings with a spare request
    object_pieces.py  object_part.py     an upload in pieces; one entry's bytes on their way into an object
    object_volume.py                     adapts a bucket to the port ``Volume``
    object_records.py                    its records of published objects
    s3_client.py                         botocore's client, for what obstore cannot do
    object_uploads.py                    aborts uploads that a kill has left open
    object_reader.py  object_tree.py     an object as a log; a prefix as a tree that is only read
    object_versions.py                   an object that machines change by turns (conditional writes)

When it fails: an object appears whole or not at all. An upload that was killed costs money until it is
aborted, so the next run and ``plan clean`` abort what the dead have left. A login that permits only a part
of what a volume needs is named before the first byte.

Where to change: a store's own words for an error are in ``object_store.py``.
"""
