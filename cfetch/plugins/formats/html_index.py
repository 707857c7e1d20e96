"""The page that a web server makes of a directory: Apache, nginx, lighttpd, Python's http.server and others.

As a manifest, a page means only the files of its own directory; ``run/index_tree.py`` reads the pages of its
directories too. What a link means is decided by its address, after a join with ``<base href>``. A page whose
base leads all its entries into another directory of the same server is the page of that directory.

- a file or a directory right below the page's directory is an entry, in whatever encoding it is written;
- the directory itself (links that sort, anchors), those above it, other directories of the same server and
  other servers (icons, footers, the makers of the server) are no part of the list;
- all else might be an entry in disguise, so it is a doubt about the list: an entry with a query or a
  fragment, a file further down in a directory that the page does not list, the same path on another server,
  a query that asks for a further page, a link that ``<base href>`` leads away, an unknown scheme.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from cfetch.base.schemes import DEFAULT_PORTS, FTP, FTPS, HTTP, WEB, is_web
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import load_bytes
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import join_url
from cfetch.plugins.formats.page_names import encode_link, find_stated, read_names, read_text

if TYPE_CHECKING:
    from cfetch.plugins.formats.html_links import LinkParser
_INDEX = re.compile(
    r"<(?:title|h1)[^<>]{0,200}>\s{0,100}"
    r"(?:(?:Index of|Directory listing (?:for|of)|Directory:|Files within|index - powered by h5ai)\s"
    r"|(?:[\w.:-]{1,255} - )?/(?:[^<>\n]{0,1000}/)?\s{0,100}</)"  # Caddy, darkhttpd; IIS names the host too
    r"|\A\s{0,100}(?:<!doctype html>\s{0,100})?(?:<meta[^<>]{0,200}>\s{0,100})?<pre>\s{0,100}<a href=",  # Go
    re.IGNORECASE,
)
_PLACE = re.compile(r"[^:/?#]+://[^/?#]+(?:[^?#]*/)?")
_UNKNOWN_PLACE = f"{HTTP}://directory.invalid/-/"
_TO_ENCODE = re.compile(r"[^!-~]+")
_OTHER_SCHEMES = frozenset({"mailto", "javascript", "data", "tel", FTP, FTPS, "rsync", "magnet"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - names to compare
_PAGING = frozenset({
    "page", "p", "offset", "start", "from", "skip", "after", "next", "cursor", "marker", "token", "pagetoken",
    "page-token", "page_token", "continuation-token",
})  # fmt: skip


def is_directory_index(head: str) -> bool:
    """Whether the title or heading of an HTML page says that it is the listing of a directory."""
    return _INDEX.search(head) is not None


class IndexPage(NamedTuple):
    """The entries of a page, relative to its directory and encoded as there; directories end with a slash.

    Each of ``files`` comes with the number of its line. ``doubts`` are reasons why entries may be missing.
    ``names``: the names of entries that are not UTF-8, by entry; ``guess`` is the encoding, if it is guessed.
    ``leads_away``: there are links that may be entries elsewhere. ``moved_to`` is the URL of the directory
    that the page is of, if its ``<base href>`` names another one.
    """

    files: list[tuple[int, str]]
    directories: list[str]
    doubts: list[str]
    names: Mapping[str, str] = MappingProxyType({})
    guess: str | None = None
    leads_away: bool = False
    moved_to: str | None = None

    @property
    def notes(self) -> list[str]:
        """What the user should know of the names, and of where the files are."""
        notes = []
        if self.moved_to is not None:
            notes.append("the index is of another directory of its server, as its <base href> says")
        if self.guess is not None:
            why = "are not UTF-8 and in no encoding that the server or the page states"
            notes.append(f"names of the index {why}; they are read as {self.guess}, which is a guess")
        return notes

    @property
    def is_empty(self) -> bool:
        """Whether no link is an entry."""
        return not self.files and not self.directories

    def refuse_leading_away(self) -> None:
        """Raise BrokenDocumentError if all entries are elsewhere."""
        if self.leads_away and self.is_empty:
            raise BrokenDocumentError(
                0,
                "its links lead out of its directory, as where <base href> names another server; give the "
                "page of that directory, or read all links by --from-format links",
            )


def find_place(url: str) -> str | None:
    """The URL of the directory whose page is at ``url``, with a slash at its end."""
    match = _PLACE.match(url)
    return None if match is None else match[0] if match[0].endswith("/") else f"{match[0]}/"


class _Address(NamedTuple):
    """A URL in a form that can be compared: ``names`` are its path's segments, ``parts`` the same decoded."""

    scheme: str
    host: str
    port: int | None
    names: list[str]
    parts: list[bytes]
    is_directory: bool
    query: str
    fragment: str


def read_page(text: str, place: str | None, content_type: str | None = None) -> IndexPage:
    """Read the page of the directory at ``place``, which is None if the page's address is unknown.

    ``text`` is as ``page_names.read_text`` gives it; ``content_type`` is the server's header.
    """
    from cfetch.plugins.formats.html_links import read_links  # few lists need Python's parser of HTML

    links, home = read_links(text), place if place is not None and is_web(place) else _UNKNOWN_PLACE
    stated = find_stated(content_type, text)
    base = _join(home, encode_link(links.base, stated))
    page = _read_entries(links, home, base, stated)
    if home == _UNKNOWN_PLACE or not page.leads_away or not page.is_empty:
        return page
    other = _find_other_place(home, base)
    moved = page if other is None else _read_entries(links, other, base, stated)
    return page if moved.is_empty else moved._replace(moved_to=other)


def _find_other_place(home: str, base: str) -> str | None:
    """The directory of the same server that ``base`` names, if the page at ``home`` may be a list of it.

    A base above the page is that of a site whose pages share a frame: its links are to the site's pages.
    """
    place = find_place(base)
    if place is None:
        return None
    try:
        own, other = _locate(home), _locate(place)
    except ValueError:  # a port that is none
        return None
    is_above = own.parts[: len(other.parts)] == other.parts
    return place if other[:3] == own[:3] and not is_above else None


def _read_entries(links: "LinkParser", place: str, base: str, stated: Sequence[str]) -> IndexPage:
    """Read the page of the directory at ``place``, whose links are joined to ``base``."""
    page, home = IndexPage([], [], list(links.doubts)), _locate(place)
    files: set[bytes] = set()
    directories: set[bytes] = set()
    uncertain: list[tuple[str, list[bytes]]] = []  # links with their segments below the directory
    for line, written in links.targets:
        link = encode_link(written, stated)
        try:
            url = join_url(base, link)
            address = _locate(url)
        except ValueError:  # a port or an IPv6 address that is none
            uncertain.append((link, []))
            continue
        rest = _find_rest(address, home)
        if not _is_entry(address, home, rest):
            if _is_doubtful(address, home, rest, is_led_away=bool(links.base) and not _is_absolute(link)):
                uncertain.append((url, rest))
        elif address.is_directory and rest[0] not in directories:
            directories.add(rest[0])
            page.directories.append(f"{_encode(address.names[-1])}/")
        elif not address.is_directory and rest[0] not in files:
            files.add(rest[0])
            name = _encode(address.names[-1])
            page.files.append((line, f"./{name}" if ":" in name else name))  # else it would end a scheme
    unknown = [url for url, rest in uncertain if not _is_listed(rest, files, directories)]
    if unknown:
        more = f" (and {len(unknown) - 1} more like it)" if len(unknown) > 1 else ""
        page.doubts.append(
            f"the page links to {SecretUrl(unknown[0])}{more}, which may be a file or a part of the list"
        )
    names = read_names([*(name for _, name in page.files), *page.directories], stated)
    return page._replace(names=names.shown, guess=names.guess, leads_away=bool(unknown))


def _join(place: str, base: str) -> str:
    try:
        return join_url(place, base)
    except ValueError:
        return place


def _locate(url: str) -> _Address:
    """Take a URL apart. Raises ValueError."""
    split = urlsplit(url)
    names: list[str] = []
    parts: list[bytes] = []
    part = b""
    for name in split.path.split("/"):
        part = unquote_to_bytes(name)
        if part == b"..":
            names[-1:], parts[-1:] = [], []
        elif part not in (b"", b"."):
            names.append(name)
            parts.append(part)
    is_directory = part in (b"", b".", b"..")
    host, port = (split.hostname or "").removesuffix("."), split.port or DEFAULT_PORTS.get(split.scheme)
    return _Address(split.scheme, host, port, names, parts, is_directory, split.query, split.fragment)


def _encode(name: str) -> str:
    """Encode spaces and characters outside ASCII, as a browser does."""
    return _TO_ENCODE.sub(lambda match: quote(match[0], safe=""), name)


def _is_absolute(link: str) -> bool:
    return link.startswith("/") or bool(urlsplit(link).scheme)


def _find_rest(address: _Address, home: _Address) -> list[bytes]:
    """The segments below the directory, whatever the server; none if the address is not below it."""
    depth = len(home.parts)
    return address.parts[depth:] if address.parts[:depth] == home.parts else []


def _is_entry(address: _Address, home: _Address, rest: list[bytes]) -> bool:
    return len(rest) == 1 and address[:3] == home[:3] and not address.query and not address.fragment


def _is_doubtful(address: _Address, home: _Address, rest: list[bytes], *, is_led_away: bool) -> bool:
    """Whether a link that is no entry as it stands may mean an entry, or a further page of the list."""
    if address.scheme not in WEB:
        return address.scheme not in _OTHER_SCHEMES
    if address.parts == home.parts and address[:3] == home[:3]:
        return any(key.lower() in _PAGING for key, _ in parse_qsl(address.query, keep_blank_values=True))
    if address[:3] == home[:3]:
        is_above = home.parts[: len(address.parts)] == address.parts
        return bool(rest) or (is_led_away and not is_above)
    return is_led_away or (bool(rest) and (bool(home.parts) or _is_same_server(address, home)))


def _is_same_server(address: _Address, home: _Address) -> bool:
    """Whether two origins may be one server by two names; for a root, below which all paths are."""
    first, second = (
        "localhost" if origin.host in _LOOPBACK else origin.host.removeprefix("www.")
        for origin in (address, home)
    )
    return first == second and (address.port == home.port or address.scheme != home.scheme)


def _is_listed(rest: list[bytes], files: set[bytes], directories: set[bytes]) -> bool:
    """Whether the list has the file of an uncertain link anyway, or the directory that it is in."""
    return bool(rest) and (rest[0] in directories or (len(rest) == 1 and rest[0] in files))


def load_page(source: Source, place: str | None) -> IndexPage:
    """Read the page in ``source``. Raises BrokenDocumentError: it is too long."""
    return read_page(_load_text(source), place, source.content_type)


def _load_text(source: Source) -> str:
    return read_text(load_bytes(source, "the page"))


def _refuse_absolute_paths(text: str) -> None:
    """Raise BrokenDocumentError if a saved page names its files by paths from the root of its server."""
    from cfetch.plugins.formats.html_links import read_links  # few lists need Python's parser of HTML

    stated = find_stated(None, text)
    links = [encode_link(link, stated) for _, link in read_links(text).targets if re.match("/[^/?]", link)]
    if links:
        directory = min((link[: link.rfind("/", 0, -1) + 1] for link in links), key=len)
        raise BrokenDocumentError(
            0,
            f"its links are absolute paths, so the page says not where it is from; say it by --base-url "
            f"https://HOST{printable(directory, 200)}",
        )


def read_html_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows, each with a ``url`` relative to the page's directory, and a name that is not UTF-8."""
    text, base = _load_text(source), document.base()
    page = read_page(text, find_place(base or ""), source.content_type)
    if base is None and page.is_empty:
        _refuse_absolute_paths(text)
    page.refuse_leading_away()
    for doubt in page.doubts:
        document.note_partial(doubt)
    document.notes.extend(page.notes)
    names_by_last = document.options is None or document.options.name_by == "last"
    for line, link in page.files:
        named = {"path": page.names[link]} if names_by_last and link in page.names else {}
        url = link if page.moved_to is None else page.moved_to + link.removeprefix("./")
        yield Row(line, {"url": url, **named})
    if page.directories:
        document.notes.append(
            f"directories that the index names and that are left out: {len(page.directories)}; "
            "`cfetch sync URL --to DIR` brings them too"
        )
