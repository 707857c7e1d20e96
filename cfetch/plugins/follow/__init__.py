"""Feeds: cfetch follows a source that grows and whose ranges split and merge, routed by a cached lineage.

A feed is cut into ranges of keys. A range that splits or merges is closed: it owns the LSNs from its first to
its last for ever, and its live descendants archive them. An LSN means nothing without its range. A token is
the position of a reader for some keys; each key is in exactly one token.

Read in this order::

    ranges.py      keys, ranges, LSNs                 source.py    the port that each backend keeps
    lineage.py     the descent of ranges (pure)       route.py     which range to ask for a token (pure)
    cache.py       lineages for all readers of a process
    reader.py      the loop below                     checkpoint.py   a follower's position, as a file
    steps.py       changes in rounds, a plan each     journal.py   a follower's redo log
    snapshot.py    what the whole feed has now, to compare files with it
    tally.py       counts a follower's work           explain.py   explains the route of a read
    link_hosts.py    which hosts the links of a feed may name
    protocol.py    keys and changes on the wire, strict in and exact out
    backends/      sources of feeds                   server/      the reference feed server
    use_cases/     what ``cfetch follow`` does        verb_follow.py  verb_feed.py   its verbs

::

    reader.step:  token = the token whose turn it is
                  page = source.read(route(lineage, token))     through a live range that archives it
                  Gone: refresh the lineage once for all readers, divide the token among the heirs, ask again
                  else check the page, move the token on, give the next token its turn

When it fails: a step that fails or is cancelled has read nothing. A listing or a page that contradicts
itself (gaps, overlaps, forks, going back, other keys) is refused, and nothing of it is applied; a backend
that may only lag is asked again first. Without the cache the same changes are read, with more requests.
Reads are at least once; applying is idempotent: ``use_cases/follow.py`` writes a step down as a whole before
its first round.
"""
