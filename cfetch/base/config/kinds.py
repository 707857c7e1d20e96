"""Kinds of option values: how the text is read, which range is allowed, how the value is shown.

File, environment and flag give text, so one parser serves all three.
"""

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from cfetch.base.config.units import duration_text, parse_duration, parse_rate, parse_size, size_text
from cfetch.base.schemes import OBJECT_STORES, SOCKS, WEB, WEB_PATTERN, scheme_of

CHOICES_WIDTH = 16  # a terminal of 80 columns would break longer choices within a word
_OBJECT_STORE = rf"({'|'.join(OBJECT_STORES)})://[^/@?#\s]+(/[^?#]*)?"  # no part of it could hold a password


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OptionKind:
    """One option's values. ``help`` is for ``--help``, ``why`` is the reason for default and range.

    A ``secret`` value may hold a password or a token: it is shown nowhere.
    """

    metavar: str
    read: Callable[[str], Any]
    show: Callable[[Any], str]
    help: str
    why: str = ""
    low: float | None = None
    high: float | None = None
    above: bool = False  # the low end itself is out of range
    choices: tuple[str, ...] = ()
    find_more: Callable[[], tuple[str, ...]] | None = None  # words beside ``choices`` that are allowed too
    is_flag: bool = False
    item: Callable[[str], None] | None = None  # the value is a tuple; raises ValueError for a wrong element
    check_text: Callable[[str], None] | None = None  # a number that may be a text too; raises ValueError
    takes_text: bool = False  # a list of one value may be the value itself
    secret: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the option may be given several times."""
        return self.item is not None

    def range_text(self) -> str:
        """The allowed values in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.low is None:
            return self.metavar
        if self.high is None:
            return f"{'above' if self.above else 'at least'} {self.show(self.low)}"
        if self.above:
            return f"above {self.show(self.low)} and at most {self.show(self.high)}"
        return f"from {self.show(self.low)} to {self.show(self.high)}"

    def parse(self, text: str) -> Any:  # noqa: ANN401 - each option has its own type
        """Read and check a value. Raises ValueError, whose text says what is allowed."""
        value = self.read(text)
        self.check(value)
        return value

    def is_as_read(self, value: object) -> bool:
        """Whether the value has the type that ``read`` gives; code may state it in another form."""
        if value is None:
            return True
        if self.is_list and not (self.takes_text and isinstance(value, str)):
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        return isinstance(value, bool if self.is_flag else str if self.low is None else int | float)

    def __repr__(self) -> str:
        """The allowed values: in ``help()`` the functions of the fields would say nothing."""
        return self.range_text() or "true or false"

    def check(self, value: Any) -> None:  # noqa: ANN401 - see parse
        """Raise ValueError if ``value`` is out of range, or not what records and metrics can hold."""
        for words in value if isinstance(value, tuple) else (value,):
            if isinstance(words, str) and not words.isascii():
                _refuse_broken_text(words)
        if self.item is not None and value is not None and not (self.takes_text and isinstance(value, str)):
            if not isinstance(value, tuple) or not value:
                raise ValueError("must be one value or a list of them")
            for item in value:
                is_text = isinstance(item, str)
                if not is_text:
                    raise ValueError(f"must hold texts, and not {type(item).__name__}")
                self.item(item)
        if self.choices and value not in self.choices:
            more = self.find_more() if self.find_more is not None else ()
            if value not in more:
                raise ValueError(f"must be one of {', '.join((*self.choices, *more))}")
        if self.is_flag and not isinstance(value, bool):
            raise ValueError("must be True or False")
        if self.check_text is not None and isinstance(value, str) and "=" in value:
            self.check_text(value)
            return
        if self.low is None or value is None:
            return
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number:
            raise ValueError("must be a number")
        too_low = value <= self.low if self.above else value < self.low
        if not math.isfinite(value) or too_low or (self.high is not None and value > self.high):
            raise ValueError(f"must be {self.range_text()}")


def _read_int(raw: str) -> int:
    stripped = raw.strip()
    if not stripped.isascii() or not stripped.removeprefix("-").isdigit() or len(stripped) > 18:
        raise ValueError("must be a whole number")
    return int(stripped)


def _read_float(raw: str) -> float:
    try:
        return float(raw.replace("_", "?"))  # float() would read 1_5 as 15
    except ValueError:
        raise ValueError("must be a number") from None


def _show_float(value: float) -> str:
    return repr(value).removesuffix(".0")


_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def _read_bool(raw: str) -> bool:
    try:
        return _BOOLEANS[raw.strip().lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def count(low: int, high: int, help_: str, why: str = "") -> OptionKind:
    """A whole number."""
    return OptionKind(metavar="N", read=_read_int, show=str, low=low, high=high, help=help_, why=why)


def count_or_auto(low: int, high: int, help_: str, why: str = "") -> OptionKind:
    """A whole number, or ``auto``, which is None: the run chooses."""

    def read(raw: str) -> int | None:
        return None if raw.strip() == "auto" else _read_int(raw)

    return OptionKind(metavar="N|auto", read=read, show=str, low=low, high=high, help=help_, why=why)


def count_or_share(low: int, high: int, help_: str, why: str = "") -> OptionKind:
    """A whole number (int), or a share (float), which is written in per cent."""

    def read(raw: str) -> float:
        try:
            share = _read_share(raw)
            if share is None:
                return _read_int(raw)
        except ValueError:
            raise ValueError(
                "must be a number of files, such as 10, or a share of them, such as 1%"
            ) from None
        if not 0 <= share <= 1:
            raise ValueError(f"must be a number from {low} to {high}, or a share from 0% to 100%")
        return share

    show = _show_share(str)
    return OptionKind(metavar="N|P%", read=read, show=show, low=low, high=high, help=help_, why=why)


def size_or_share(high: int, help_: str, why: str = "") -> OptionKind:
    """Bytes (int), written like 10G, or a share (float), which is written in per cent."""

    def read(raw: str) -> float:
        share = _read_share(raw)
        if share is None:
            return parse_size(raw)
        if not 0 <= share < 1:
            raise ValueError("must be a size, or a share from 0% to below 100%")
        return share

    show = _show_share(size_text)
    return OptionKind(metavar="SIZE|P%", read=read, show=show, low=0, high=high, help=help_, why=why)


def _read_share(raw: str) -> float | None:
    percent = raw.strip().removesuffix("%")
    return None if percent == raw.strip() else _read_float(percent) / 100


def _show_share(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: f"{_show_float(value * 100)}%" if isinstance(value, float) else show(value)


def ratio(low: float, high: float | None, help_: str, why: str = "", *, above: bool = False) -> OptionKind:
    """A number without a unit."""
    return OptionKind(
        metavar="X",
        read=_read_float,
        show=_show_float,
        low=low,
        high=high,
        above=above,
        help=help_,
        why=why,
    )


def duration(low: float, high: float, help_: str, why: str = "", *, above: bool = False) -> OptionKind:
    """Seconds, written like 30s or 5m."""
    return OptionKind(
        metavar="DURATION",
        read=parse_duration,
        show=duration_text,
        low=low,
        high=high,
        above=above,
        help=help_,
        why=why,
    )


def byte_rate(low: int, high: int, help_: str, why: str = "", *, has_timetable: bool = False) -> OptionKind:
    """Bytes per second, written like 500K or 10M; also by the time of day, which stays a text."""

    def read(raw: str) -> int | str:
        return raw.strip() if has_timetable and "=" in raw else parse_rate(raw)

    def check(raw: str) -> None:
        from cfetch.base.config.timetable import parse_timetable  # few runs have one

        parse_timetable(raw, low, high)

    return OptionKind(
        metavar="RATE",
        read=read,
        show=lambda value: value if isinstance(value, str) else size_text(value),
        low=low,
        high=high,
        check_text=check if has_timetable else None,
        help=help_,
        why=why,
    )


def byte_size(low: int, high: int, help_: str, why: str = "") -> OptionKind:
    """Bytes, written like 500K, 10M or 2G."""
    return OptionKind(
        metavar="SIZE", read=parse_size, show=size_text, low=low, high=high, help=help_, why=why
    )


def request_rate(low: float, high: float, help_: str, why: str = "") -> OptionKind:
    """Requests a second, written like 5/s, 30/m or 100/h."""

    def read(raw: str) -> float:
        number, slash, unit = raw.strip().partition("/")
        if slash and unit not in _UNITS_S:
            raise ValueError("must be written like 5/s, 30/m or 100/h")
        return _read_float(number) / _UNITS_S.get(unit, 1)

    def show(per_s: float) -> str:
        return f"{_show_float(per_s)}/s"

    return OptionKind(metavar="N/s", read=read, show=show, low=low, high=high, help=help_, why=why)


_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600}


def flag(help_: str, why: str = "") -> OptionKind:
    """True or false."""
    return OptionKind(
        metavar="", read=_read_bool, show=lambda v: str(v).lower(), help=help_, why=why, is_flag=True
    )


def choice(
    choices: tuple[str, ...],
    help_: str,
    why: str = "",
    *,
    find_more: Callable[[], tuple[str, ...]] | None = None,
) -> OptionKind:
    """One of a few words. If they are too long for the flag's metavar, ``help_`` names them.

    ``find_more``: further words that are allowed; asked only for a word that is not one of the few.
    """
    joined = "|".join(choices)
    return OptionKind(
        metavar=joined if len(joined) <= CHOICES_WIDTH else "HOW",
        read=str.strip,
        show=str,
        choices=choices,
        find_more=find_more,
        help=help_,
        why=why,
    )


def _refuse_broken_text(words: str) -> None:
    try:
        words.encode()
    except UnicodeEncodeError:
        raise ValueError("must be UTF-8; rename it") from None


def text(metavar: str, help_: str, why: str = "") -> OptionKind:
    """Any text, such as a path."""
    return OptionKind(metavar=metavar, read=str, show=str, help=help_, why=why)


def columns(help_: str, why: str = "") -> OptionKind:
    """A column's name, or several; in one text, such as an environment variable, it is one name."""
    return OptionKind(
        metavar="NAME", read=str, show=str, item=_check_column, takes_text=True, help=help_, why=why
    )


def _check_column(name: str) -> None:
    if not name:
        raise ValueError("must be the name of a column")


def destinations(help_: str, why: str = "") -> OptionKind:
    """Directories and object stores. In one text, such as an environment variable, commas separate them."""
    return OptionKind(metavar="DIR", read=_split, show=",".join, item=_check_destination, help=help_, why=why)


def patterns(help_: str) -> OptionKind:
    """Patterns of paths; in one text each is on its own line, as headers are."""
    return replace(headers(help_), metavar="GLOB", item=_check_pattern, secret=False)


def _check_pattern(text: str) -> None:
    if not text or text[0] == "/" or "\0" in text:
        raise ValueError("must be a pattern of paths below the destination, like 2026/* or *.parquet")


def headers(help_: str, why: str = "") -> OptionKind:
    """Headers of a request. In one text, such as an environment variable, each is on its own line."""
    return OptionKind(
        metavar="'NAME: VALUE'",
        read=lambda raw: tuple(raw.splitlines()),
        show="\n".join,
        item=_check_header,
        help=help_,
        why=why,
        secret=True,
    )


def _check_header(text: str) -> None:
    if not re.fullmatch(r"[!#-'*+.^-`|~0-9A-Za-z-]+[ \t]*:[^\x00-\x08\x0a-\x1f\x7f]*", text):
        raise ValueError("must be a name, a colon and a value, as in 'X-Team: lake'")


def header_value(metavar: str, help_: str, why: str = "") -> OptionKind:
    """The value of one header that holds no secret."""

    def read(raw: str) -> str:
        if not raw.strip() or not raw.isascii() or not raw.isprintable():
            raise ValueError("must be printable ASCII characters")
        return raw.strip()

    return OptionKind(metavar=metavar, read=read, show=str, help=help_, why=why)


def hosts(help_: str, why: str = "") -> OptionKind:
    """Hosts, each with its port if a URL has one; ``*`` is all. In one text, commas separate them."""
    return OptionKind(metavar="HOST", read=_split, show=",".join, item=_check_host, help=help_, why=why)


def _check_host(text: str) -> None:
    if text != "*" and not re.fullmatch(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?", text):
        raise ValueError("must be a host as its URLs have it, in lower case, like example.org or h.test:8080")


def addresses(help_: str, why: str = "") -> OptionKind:
    """Addresses of hosts, as ``HOST:PORT:ADDRESS[,ADDRESS]``. In one text, commas separate them."""
    return OptionKind(
        metavar="HOST:PORT:ADDR", read=_split_hosts, show=",".join, item=_check_address, help=help_, why=why
    )


def _check_address(text: str) -> None:
    from cfetch.base.config.addresses import split_addresses  # few runs name addresses

    split_addresses(text)


def _split_hosts(raw: str) -> tuple[str, ...]:
    from cfetch.base.config.addresses import split_texts  # the same

    return split_texts(raw)


def is_object_store(destination: str) -> bool:
    """Whether a destination is a URL and not a directory."""
    return scheme_of(destination) != ""


def plugin_names(metavar: str, help_: str, *, find_known: Callable[[], tuple[str, ...]]) -> OptionKind:
    """Names of plug-ins of other distributions. In one text, commas separate them."""

    def check(name: str) -> None:
        known = find_known()
        if name not in known:
            words = f"one of {', '.join(known)}" if known else "installed; no package here has one"
            raise ValueError(f"must be {words}")

    return OptionKind(metavar=metavar, read=_split, show=",".join, item=check, help=help_)


def _split(raw: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in raw.split(","))


def _check_destination(destination: str) -> None:
    if not destination or "\0" in destination:
        raise ValueError("must name a directory, or an object store like s3://bucket/prefix")
    if destination == "~" or destination.startswith("~/"):
        raise ValueError(
            "must be a path without ~, which no shell has read here; ./~ is a directory of that name"
        )
    is_valid_url = re.fullmatch(_OBJECT_STORE, destination) and destination.isprintable()
    if is_object_store(destination) and not is_valid_url:
        raise ValueError(
            "must be a directory, or s3://, gs:// or az:// with bucket/prefix, and without user, query or "
            "fragment; logins come from the environment"
        )


def command(help_: str, why: str = "") -> OptionKind:
    """A program with its arguments, quoted like in a shell."""
    return OptionKind(metavar="COMMAND", read=_read_command, show=str, help=help_, why=why, secret=True)


def _read_command(raw: str) -> str:
    try:
        words = shlex.split(raw)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {str(error).lower()}") from None
    if not words:
        raise ValueError("must name a program")
    return raw


def origin(help_: str, why: str = "") -> OptionKind:
    """A host or ``https://host``, without any place for a password."""
    return OptionKind(metavar="HOST", read=_read_origin, show=str, help=help_, why=why)


def _read_origin(raw: str) -> str:
    if not re.fullmatch(rf"({WEB_PATTERN}://)?[A-Za-z0-9.-]+(:\d{{1,5}})?/?", raw.strip(), re.ASCII):
        raise ValueError("must be a host or https://host, without user, path or query")
    return raw.strip()


def proxy_url(help_: str, why: str = "") -> OptionKind:
    """The URL of a proxy (HTTP or SOCKS), which may hold a user and a password."""
    return OptionKind(metavar="URL", read=read_proxy, show=str, help=help_, why=why, secret=True)


def read_proxy(raw: str) -> str:
    """Check the URL of a proxy. Raises ValueError, whose text does not quote the URL."""
    stripped = raw.strip()
    try:
        parts = urlsplit(stripped)
        port_is_fine = parts.port != 0
    except ValueError:
        parts, port_is_fine = urlsplit(""), False
    plain = stripped.isascii() and stripped.isprintable() and " " not in stripped
    if not plain or not port_is_fine or parts.scheme not in (*WEB, *SOCKS) or not parts.hostname:
        raise ValueError("must be a URL like http://proxy.example.org:3128 or socks5h://localhost:1080")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("must be a proxy's URL, without path, query or fragment")
    return stripped
