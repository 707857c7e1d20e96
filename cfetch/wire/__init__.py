"""Asks servers, and judges what their replies mean.

An attempt asks through one port, ``Transport``, and gets a ``Response`` whose body it reads itself. aiohttp
makes the connections: names, TLS, proxies. Request and reply go on them without its session, and llhttp
reads the reply: 45 us of processor for a file of 16 KiB, where the session takes 160 and aiohttp's own parser
without the session 110. Only the tunnel through a proxy (CONNECT) is aiohttp's own from
end to end. A foreign error becomes one of ``cfetch/errors.py``, and its text is dropped, since it may hold a
URL. What a reply means and when to ask again are pure functions of values.

Read in this order::

    http.py             the port and its adapter: what is asked, redirects hop by hop
    connections.py      the pool: kept connections and fresh ones
    exchange.py         one request and its reply on a connection: limits, framing, what is used again
    judge.py            one verdict by status and headers: accept, retry, throttle, refresh, refuse
    stated_hash.py      the hash of the whole object that a store states in its reply (pure)
    retry.py            what follows a failed try: when, with a fresh link, elsewhere, or not at all
    targets.py          where a redirect may lead, and which addresses are public (``--public-only``)
    foreign_errors.py   errors of aiohttp and of the system in our own form
    network.py          proxy, logins, CAs, client certificate: read and checked before the first request
    credentials.py      the user's headers, token and cookies, and the hosts that may have them
    rate.py             ``--limit-rate``: turns of reading, for all attempts together and for each host
    request_pace.py     ``--rate``: when a host may be asked once more (pure)
    refresh.py          fresh links, for all entries that expire at once with one question
    listener.py         the end of the project's own servers: no connection stays open unseen
    loop.py             the event loop of a download: uvloop where it is installed
    link_header.py      where a list that comes in pages goes on (pure)
    document.py  stated_name.py    small questions repeated until they are answered: documents, sizes, names

When it fails: every method raises a ``SourceError`` whose type says whether another try can help, and
nothing that was read is lost to the caller. No error, log line or event holds a URL, a header or a token. A
connection that carried a straggler never goes back to the pool.

Where to change: how a 429 is treated is ``STATUS`` in ``judge.py`` (it throttles), ``next_step`` in
``retry.py`` (how long this entry waits) and ``engine/hosts.py`` (how many requests its host gets from then
on). ``engine/attempt.py`` makes the error of it, with its Retry-After; ``document.py`` retries manifests and
API pages by its own back-off.
"""
