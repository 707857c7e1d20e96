"""Asks servers, and judges what their replies mean.

An attempt asks through one port, ``Transport``, and gets a ``Response`` whose body it reads itself. aiohttp
makes the connections: names, TLS, proxies. Request and reply do not use its session, and llhttp reads the
reply. This takes 45 us of processor for a file of 16 KiB; aiohttp's session takes 160, and its own parser
without the session 110. Only the tunnel through a proxy (CONNECT) is made by aiohttp as a whole. A foreign
error becomes an error of ``base/errors.py``, and its text is dropped, since it may hold a URL. Pure
functions decide what a reply means and when to ask again.

Read in this order::

    transport.py        the port; the transport of a run, which opens the source of a scheme when it is asked
    source.py           the port for sources that are no HTTP servers; replies of their files
    object_transport.py    objects of stores, by links that are signed for one request
    hops.py             redirects hop by hop, with the logins and cookies that each may have
    http_opener.py  http.py    the adapter to HTTP: requests over the pool's connections
    session.py          the second adapter: aiohttp's own session, for SOCKS, Digest and programs' sessions
    connections.py      the pool: kept connections and fresh connections
    tcp_figures.py      what the kernel knows of a connection while its bytes come
    exchange.py         one request and its reply on a connection: framing, the pace of reading, reuse
    reply_parser.py     a reply's limits, status, headers and pieces
    odd_heads.py  repeated_lengths.py    mend heads that another reader understands (pure)
    bare_chunks.py      bodies in chunks whose lines end with a bare LF (pure)
    body_buffer.py      memory for the bodies of large replies, used again and again (pure)
    headers.py  verdict.py    what judges read, and what they say (values)
    judge.py            one verdict by status and headers: accept, retry, throttle, refresh, refuse
    partial_replies.py  the verdict on a reply that brings a part of an object (pure)
    statuses.py         the verdict if the status is not that of a body: a table
    codings.py  transfers.py  decoding.py    what codings of replies mean; how a body is unpacked
    reasons.py          the server's own reason for a refusal, and what follows from its code
    pauses.py           how long a reply asks to wait, from all of its headers (pure)
    stated_hash.py      the hash of the whole object that a store states in its reply (pure)
    next_step.py        the step after a failed try: when, with a fresh link, elsewhere, or not at all
    retry.py            back-off, the budget of retries, and whether a host refuses one file or all (pure)
    targets.py          where a redirect may lead, and which addresses are public (``--public-only``)
    foreign_errors.py   turns errors of aiohttp and of the system into cfetch's errors
    network.py          proxy, logins, CAs, client certificate: read and checked before the first request
    netrc_file.py       logins of netrc, read as curl reads them
    own_tls.py  own_sockets.py    the user's CAs and certificate; sockets for public addresses, small windows
    proxies.py  no_proxy.py    proxies of the options or the environment; hosts that NO_PROXY names (pure)
    odd_hosts.py        hosts that are spelled in another way when they are asked for (pure)
    credentials.py  cookies.py     the user's headers, token and cookies, and the hosts that may have them
    cookie_jar.py       the cookies that servers set, kept for a run
    rate.py  request_pace.py    turns of reading; when a host is asked next (pure)
    fresh_link.py  refresh.py  command.py    fresh links, one request for all that expire at once; a command
    serving.py          serves the live page and feeds (``serve_app``); listener.py closes servers
    loop.py             the event loop of a download: uvloop if it is installed
    link_header.py      finds the next page of a list that comes in pages (pure)
    document.py  stated_name.py    small requests with retries: for documents, sizes, names
    reach.py            one request that takes no body: whether a file can be had
    disposition.py      the name in a Content-Disposition (pure)

When it fails: every method raises a ``SourceError`` whose type says whether another try can help, and the
caller keeps all bytes that were read. No error, log line or event holds a URL, a header or a token. A
connection that carried a straggler never goes back to the pool.

Where to change: the treatment of a 429 is in ``STATUS`` in ``statuses.py`` (it throttles), in
``next_step.py`` (how long this entry waits) and in ``engine/hosts.py`` (how many requests its host gets from
then on). ``engine/attempt.py`` makes the error, with its Retry-After; ``document.py`` retries manifests and
API pages with its own back-off.
"""
