"""The options of the data sources: a few of their own, and every setting that concerns a task."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.layers import ENV_PREFIX, resolve
from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.config.units import parse_size
from cfetch.base.errors import ConfigError
from cfetch.base.schemes import is_web
from cfetch.base.secret import printable
from cfetch.plugins.spark.frames.platform_paths import read_destination
from cfetch.storage.buckets.object_store import pick_login
from cfetch.storage.buckets.stores import STORES
from cfetch.wire.network import NETWORK_ENV

# A column of bodies costs four times the processor time of files; see docs/data-source.md.
CONTENT_LIMIT = "1MiB"
MOST_CONTENT_BYTES = 1 << 30  # Arrow holds 2 GiB of a column in a batch
_FLAG = re.compile(r"^--([a-z-]+)", re.MULTILINE)
_OF_STORES = {f"{name.partition('_')[0]}_" for store in STORES.values() for name in store.login}
_HIDDEN = {f"{key}_url": key for key, kind in KINDS.items() if kind.secret}  # as Spark hides names with url
NOT_HERE = {  # they concern a run's screen, files, timeline or volumes, which a data source does not have
    *("batch_share", "color", "dry_run", "engine", "explain", "failed_from", "failures", "group"),
    *("include", "exclude", "verbose"),
    *("heartbeat_interval", "heartbeat_misses", "json", "log_format", "progress"),
    *("metrics", "metrics_tables"),
    *("placement", "placement_deadline", "quiet", "spark_master", "statement_host", "write_timeout"),
    "bad_rows",  # no message would report the skipped rows
    "clash",  # its note would be lost too
    "cookies",  # it names a file of one machine
    "keep_columns",  # the columns would go to a file of metrics
    *("ordered", "joined", "unpacked", "memory"),  # of standard output
}


def pick_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of settings, of proxies and of logins at stores, which a source may read."""
    begins = (ENV_PREFIX, *_OF_STORES)
    return {name: text for name, text in env.items() if name in NETWORK_ENV or name.startswith(begins)}


_BEFORE = pick_variables(os.environ)


def adopt_variables(variables: Mapping[str, str]) -> None:
    """Let this process have the ``variables`` of the program that has called ``register``; none: leave it.

    Spark plans a source in a process of its own, whose environment is the JVM's: what the program has put
    into ``os.environ`` since it made the session is not there. The clients of stores read the environment
    themselves, so it is set, and not handed through. Spark uses a process again, so what an earlier call has
    set goes.
    """
    if variables:
        for name in pick_variables(os.environ).keys() - _BEFORE.keys():
            del os.environ[name]
        os.environ.update({**_BEFORE, **variables})


class Options(NamedTuple):
    """``own``: the source's own options, by name. ``content_bytes`` None: no column of contents."""

    own: dict[str, str]
    settings: Settings
    env: dict[str, str]
    content_bytes: int | None

    @property
    def root(self) -> Path:
        """The directory to which the files go."""
        return Path(self.settings.to[0])

    @property
    def is_store(self) -> bool:
        """Whether the files become objects of a store instead."""
        return is_object_store(self.settings.to[0])


def read_options(options: Mapping[str, str], *own: str, needed: str, takes_store: bool = False) -> Options:
    """Read options. ``own``: further names that the source knows. ``needed`` and ``to`` must be there.

    ``takes_store``: the files may become objects of a store.

    Raises:
        ConfigError: an option is unknown, missing, or out of its range.
    """
    options = _reveal_hidden(options)
    names = {needed, *own, "content", "content_limit"}
    flags = {key: value for key, value in options.items() if key not in names}
    for key in flags:
        if key not in KINDS:
            near = get_close_matches(key, {*names, *KINDS} - NOT_HERE, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"there is no option {printable(key)!r}{hint}")
        if key in NOT_HERE:
            raise ConfigError(f"option {key} means nothing to a data source; leave it out")
    for key in (needed, "to"):
        if not options.get(key):
            raise ConfigError(f"option {key} is missing")
    if options[needed] == "-":
        raise ConfigError(f"option {needed} must name a file or a URL: a data source has no standard input")
    flags["to"], named = read_destination(flags["to"], os.environ)
    env = {key: value for key, value in os.environ.items() if key.startswith(ENV_PREFIX)}
    try:
        settings = resolve(flags=flags, env=env).settings
    except ConfigError as error:  # its message names flags; a data source has keys instead
        raise ConfigError(_FLAG.sub(lambda flag: f"option {flag[1].replace('-', '_')}", str(error))) from None
    wanted = options.get("content", "false").strip().lower()
    if wanted not in ("true", "false"):
        raise ConfigError("option content must be true or false")
    limit = parse_content_limit(options.get("content_limit", CONTENT_LIMIT))
    made = make_options(
        settings,
        own={key: value for key, value in options.items() if key in {needed, *own}},
        content_bytes=limit if wanted == "true" else None,
        takes_store=takes_store,
    )
    return made._replace(env=made.env | named)


def name_source(options: Mapping[str, str], name: str, *others: str) -> dict[str, str]:
    """The options with ``name``, which may be called one of ``others`` or, for a secret link, ``<name>_url``.

    Raises ConfigError.
    """
    private = f"{name}_url"
    given = {key: options[key] for key in (name, private, *others) if options.get(key)}
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} name the {name} twice; give one of them")
    named = {key: value for key, value in options.items() if key not in given}
    for key, value in given.items():
        if key != private and holds_secrets(value):
            raise ConfigError(
                f"option {key} is a URL with a query or a login, and Spark writes this option of SQL to its "
                f"event log; get a new link, and call it {private}, which Spark redacts"
            )
        named[name] = value
    return named


def _reveal_hidden(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the setting's own name for each ``<name>_url`` that hides a secret from Spark's log.

    Raises ConfigError: an option may hold a secret and is not hidden, or is given twice.
    """
    revealed = {key: value for key, value in options.items() if key not in _HIDDEN}
    for key, value in revealed.items():
        if may_hold_secrets(key, value):
            raise ConfigError(
                f"option {key} may hold a secret, and Spark writes this option of SQL to its event log; get "
                f"a new secret, and call the option {key}_url, which Spark redacts, or set "
                f"{ENV_PREFIX}{key.upper()} on the driver"
            )
    for key in options.keys() & _HIDDEN.keys():
        if _HIDDEN[key] in revealed:
            raise ConfigError(f"options {_HIDDEN[key]} and {key} are the same; give one of them")
        revealed[_HIDDEN[key]] = options[key]
    return revealed


def may_hold_secrets(key: str, value: str) -> bool:
    """Whether a setting may hold a secret, such as a header; a proxy's URL does only with a login."""
    return key in KINDS and KINDS[key].secret and (key != "proxy" or holds_secrets(value))


def holds_secrets(text: str) -> bool:
    """Whether it is a URL with a part that ``SecretUrl`` never shows."""
    if not is_web(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    return bool(parts.query) or "@" in parts.netloc


def make_options(
    settings: Settings,
    *,
    own: Mapping[str, str] = MappingProxyType({}),
    content_bytes: int | None,
    takes_store: bool = False,
    word: str = "option ",
) -> Options:
    """Make options of settings. ``takes_store``: the files may become objects of a store.

    ``word``: what goes before the name of an option in messages; in Python they are settings and arguments.

    Raises ConfigError: a task of a frame cannot follow them.
    """
    to = settings.to[0]
    is_place = to.startswith("/") or (takes_store and is_object_store(to))
    if len(settings.to) > 1 or not is_place:
        what = f"{word}to must be one directory that all executors see, as an absolute path"
        store = "or the URL of an object store" if takes_store else "or use cfetch.spark.download for a store"
        raise ConfigError(f"{what}, {store}" if takes_store or is_object_store(to) else what)
    if (settings.header or settings.bearer_env) and not settings.header_host:
        kind = "setting " if takes_store else word
        raise ConfigError(f"{kind}header or bearer_env is given; say in header_host which hosts may have it")
    wanted = {*NETWORK_ENV, settings.bearer_env}
    return Options(
        own=dict(own),
        settings=replace(settings, statement_host=None),  # tasks have no token for it
        env={name: value for name, value in os.environ.items() if name in wanted}
        | pick_login(to, os.environ),
        content_bytes=content_bytes,
    )


def parse_content_limit(text: str, word: str = "option ") -> int:
    """The most bytes of a content; ``word`` as in ``make_options``. Raises ConfigError."""
    try:
        limit = parse_size(text)
    except ValueError as error:
        raise ConfigError(f"{word}content_limit: {error}") from None
    if limit > MOST_CONTENT_BYTES:
        raise ConfigError(f"{word}content_limit is at most 1GiB; read larger files where they are")
    return limit
