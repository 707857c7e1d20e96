"""The URLs that a manifest may state: absolute after a join; http and https are sent exactly as written.

A signed URL breaks when it is quoted again, so nothing is repaired: a URL that cannot be sent
unchanged is refused. No message quotes the URL.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import unquote

from cfetch.base.errors import UsageError
from cfetch.base.registry import find_file_source
from cfetch.base.schemes import WEB_PATTERN, is_object_url, is_web
from cfetch.manifest.faults import UrlError

_REST = (
    r"(?:(?P<login>[!\"$-.0->@-\[\]-~]*)@)?"
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)(?P<zone>%(?:25)?[A-Za-z0-9._~-]+)?\]|(?P<name>[A-Za-z0-9_.-]*[A-Za-z0-9_-])\.?)"
    r"(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[!\"$->@-~]*)?(?:[?#][!-~]*)?\Z"
)
_ABSOLUTE = re.compile(rf"{WEB_PATTERN}://{_REST}")
_OTHER = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://{_REST}")
_AUTHORITY = re.compile(r"[^:]+://(?:[^/?#]*@)?([^/?#@]*)")
_MAX_PORT = 65535
_USER = re.compile(r"\A(?P<user>[^:]+://[^/?#:@]*)(?P<password>:[^/?#]*)?@")


def resolve_url(text: str, base_url: Callable[[], str | None]) -> str:
    """Return ``text`` unchanged if it is absolute, else joined to the result of ``base_url`` (RFC 3986, 5).

    Raises:
        UrlError: the URL is relative and there is no base, or it has another scheme, no host, a port out of
            range, or characters that a URL must percent-encode.
    """
    match = _ABSOLUTE.match(text)
    if match is None:
        match = _match_other(text)
        if match is None:
            if not is_object_url(text):
                from cfetch.manifest.url_completion import join_to_base  # most links are absolute

                text = join_to_base(text, base_url)
            if is_object_url(text):
                return _check_object(text)
            match = _ABSOLUTE.match(text) or _match_other(text)
    if match is None:
        raise _make_error(text)
    ipv6, name, port = match["ipv6"], match["name"], match["port"]
    if port and not 1 <= int(port) <= _MAX_PORT:
        raise _make_error(text, "BAD_PORT")
    if ipv6:
        _check_ipv6(ipv6)
    elif name[-1].isdigit() and name.replace(".", "").isdigit():
        _check_ipv4(name)
    return text


def _make_error(text: str, known: str = "") -> UrlError:
    """The error of a URL; ``known``: the name of the fault, if its caller has found it."""
    from cfetch.manifest import url_faults  # few lists have a fault

    return UrlError(getattr(url_faults, known) if known else url_faults.find_url_fault(text))


def _match_other(text: str) -> "re.Match[str] | None":
    """Match a URL of a scheme that is neither http nor an object store's, if files of it can be had."""
    match = None if is_web(text) or is_object_url(text) else _OTHER.match(text)
    if match is None:
        return None
    try:
        row = find_file_source(text)
    except UsageError as error:
        raise UrlError(str(error)) from None
    return match if row is not None and (row.takes_login or match["login"] is None) else None


def _check_object(text: str) -> str:
    from cfetch.manifest.object_urls import split_object_url  # most lists name no objects

    parts = split_object_url(text)
    if parts is None:
        raise UrlError("its bucket has no valid name, or its key holds control characters")
    _check_key(parts.key)
    return text


def find_repository_link(text: str, endpoint: str) -> str:
    """The address of a file in a repository. Raises UrlError: ``text`` names none."""
    from cfetch.manifest.repository_urls import make_link, split_repository_url  # most lists name none

    parts = split_repository_url(text)
    if parts is None:
        raise UrlError("it names no repository, like hf://datasets/owner/name@revision/path")
    _check_key(parts.key)
    return make_link(parts, endpoint)


def _check_key(key: str) -> None:
    from cfetch.manifest.object_urls import find_key_fault  # its caller has loaded it

    if key.endswith("/") or not key:
        raise UrlError("it is a prefix and names no object; give a prefix to cfetch download, not in a list")
    if (fault := find_key_fault(key)) is not None:
        raise UrlError(f"it {fault}")


def host_of(url: str) -> str:
    """Like ``SecretUrl.host``, in a tenth of the time, for a URL that ``resolve_url`` has checked."""
    match = _AUTHORITY.match(url)
    return match[1].lower() if match else ""


def strip_signature(url: str) -> str:
    """The URL without its signature and its password: the same for two links to one object.

    Keys are removed only if the signature is complete (``signatures.py``); else the whole query stays. A user
    stays too: on some servers each user has files of their own.
    """
    if "?" not in url and "#" not in url and "@" not in url:  # fast path
        return url
    if is_object_url(url):  # it is never signed, and its key may hold any character
        return url
    if "@" in url:
        url = _USER.sub(r"\g<user>@", url, count=1)
    stem, mark, query = url.partition("#")[0].partition("?") if "#" in url else url.partition("?")
    if not mark:
        return stem
    from cfetch.manifest.signatures import drop_signature  # most links have no query

    kept = drop_signature(query)
    return f"{stem}?{kept}" if kept else stem


def last_segment(url: str) -> str:
    """The last segment of an absolute URL's path, percent-decoded once: a file's default name.

    Raises:
        UrlError: there is none, or it decodes to a name with a slash or to bytes that are not UTF-8.
    """
    stem, _, name = url.rpartition("/")
    if is_object_url(url):
        return name
    if "?" not in url and "#" not in url and stem[-1:] != "/":  # fast path: the last slash is in the path
        return _decode_name(name)
    match = _ABSOLUTE.match(url) or _OTHER.match(url)
    return _decode_name((match["path"] or "").rpartition("/")[2] if match else "")


def decode_last_segment(url: str) -> str:
    """The last segment of a URL that may be relative, percent-decoded. Raises as ``last_segment``."""
    return _decode_name(url.partition("#")[0].partition("?")[0].rpartition("/")[2])


def _decode_name(name: str) -> str:
    if "%" in name:
        try:
            name = unquote(name, errors="strict")
        except UnicodeDecodeError:
            raise UrlError("the url's last segment does not decode to UTF-8") from None
    if not name:
        raise UrlError("the url's path ends without a file name")
    if "/" in name:
        raise UrlError("the url's last segment decodes to a name with a slash")
    return name


@lru_cache(maxsize=256)  # a list has few hosts
def _check_ipv6(text: str) -> None:
    try:
        IPv6Address(text)
    except ValueError:
        raise UrlError("its host is not an IPv6 address") from None


@lru_cache(maxsize=256)
def _check_ipv4(text: str) -> None:
    """Check a host of numbers. As for browsers and curl, ``127.1`` is an address; five numbers are a name."""
    parts = text.split(".")
    if len(parts) > 4 or "" in parts:
        return
    try:
        *firsts, last = (int(part, 8 if part[0] == "0" else 10) for part in parts)
    except ValueError:
        is_valid = False
    else:
        is_valid = max(firsts, default=0) <= 255 and last < 256 ** (5 - len(parts))
    if not is_valid:
        raise UrlError("its host is a number but no IPv4 address, like 127.0.0.1")
