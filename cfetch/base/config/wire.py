"""The options of the wire, which never sees the options of other rooms.

``Settings`` composes them (``Settings.network``, ``Settings.rates``); a caller without settings makes them.
"""

import msgspec

MAX_HEAD_BYTES = 128 << 10  # of a reply, in all; one header may have an eighth of it
ALL_HOSTS = ""  # the name of the limit for all hosts together, where limits have names


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per second that may be read: by all downloads together, and from each host. None: no limit.

    ``by_time``: the former by the time of day, as ``timetable.py`` reads it.
    """

    total_bps: int | None = None
    per_host_bps: int | None = None
    by_time: str | None = None

    @property
    def exist(self) -> bool:
        """Whether there is a limit at any time."""
        return self.least_bps is not None or self.by_time is not None

    @property
    def least_bps(self) -> int | None:
        """The tighter of the two limits that are in force at all times."""
        return min(
            (limit for limit in (self.total_bps, self.per_host_bps) if limit is not None), default=None
        )


NO_LIMITS = RateLimits()


class ReplyOptions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to do with replies that are odd, where nothing proves their bytes.

    ``encoded``: a body that came in a coding is kept as it is, decoded, or refused. ``accept_unframed``: a
    body that only the end of its connection ends is taken. ``doubtful``: what may be an error in the place of
    a file is noted, accepted without a word, or refused. ``max_bytes``: of a file.
    """

    encoded: str = "keep"
    accept_unframed: bool = False
    doubtful: str = "note"
    max_bytes: int | None = None


CAREFUL = ReplyOptions()


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How servers are reached. The default is a direct connection with the system's CAs.

    Each field but ``rates`` has the name of the setting that it comes from: ``Settings.network`` copies them.
    ``proxy`` may hold a password, and ``header`` (``Name: value``) may hold logins, so ``repr`` shows no
    value; ``wire.network`` reads the options once. Only hosts of ``header_host`` get the headers, and the
    token in the environment variable ``bearer_env``.
    """

    proxy: str | None = None
    proxy_from_env: bool = False
    netrc: bool = False
    netrc_redirects: bool = False
    http_redirects: bool = False
    transport: str = "lean"
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    public_only: bool = False
    header: tuple[str, ...] = ()
    header_host: tuple[str, ...] = ()
    bearer_env: str | None = None
    user_agent: str | None = None
    cookies: str | None = None
    resolve: tuple[str, ...] = ()
    max_head_size: int = MAX_HEAD_BYTES
    rates: RateLimits = NO_LIMITS

    def __repr__(self) -> str:
        return "NetworkOptions(…)"
