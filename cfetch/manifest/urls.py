"""The URLs that a manifest may state: absolute after a join; http and https are sent exactly as written.

A signed URL breaks when it is quoted again, so nothing is repaired: a URL that cannot be sent
unchanged is refused. No message quotes the URL.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import quote, unquote, urljoin

from cfetch.base.errors import UsageError
from cfetch.base.registry import find_file_source
from cfetch.base.schemes import HTTP, WEB_PATTERN, is_object_url, is_web

_REST = (
    r"(?:(?P<login>[!\"$-.0->@-\[\]-~]*)@)?"
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)(?P<zone>%(?:25)?[A-Za-z0-9._~-]+)?\]|(?P<name>[A-Za-z0-9_.-]*[A-Za-z0-9_-])\.?)"
    r"(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[!\"$->@-~]*)?(?:[?#][!-~]*)?\Z"
)
_ABSOLUTE = re.compile(rf"{WEB_PATTERN}://{_REST}")
_OTHER = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://{_REST}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_VISIBLE = re.compile(r"[!-~]+\Z")
_AUTHORITY = re.compile(r"[^:]+://(?:[^/?#]*@)?([^/?#@]*)")
# Python joins them as if they were relative, so that the base's own server would be asked for another file.
_NAMES_NO_HOST = re.compile(rf"{WEB_PATTERN}:(?!//[^/?#\\])|//(?![^/?#\\])")
_PLAIN_RELATIVE = re.compile(r"(?!\.)[^:/?#]+(?:/(?!\.)[^/?#]*)*(?:\?[^#]+)?\Z")
_MAX_PORT = 65535


def is_url(name: str) -> bool:
    """Whether a manifest's name is an http(s) URL."""
    return is_web(name)


_TAIL = re.compile(r"[?#].*\Z", re.DOTALL)
_LOGIN = re.compile("//[^/]*@")
_NO_HOST = re.compile(r"[\x00-\x20\x7f/?#@:%\[\]\\]")
_USER = re.compile(r"\A(?P<user>[^:]+://[^/?#:@]*)(?P<password>:[^/?#]*)?@")
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<login>[^/?#]*@)?(?P<host>[^/?#:]*)(?P<rest>.*)\Z", re.DOTALL
)
_TO_ENCODE = re.compile("[ \u00a0-\ud7ff\ue000-\U0010ffff]+")
# Two patterns, each of which reads a character once: a single pattern took cubic time.
_KEY = re.compile(r"[?&]([^=&#?]*)=")
_SIGNS = re.compile(r"sig|token|credential|policy|hmac|expires", re.IGNORECASE)


class UrlError(ValueError):
    """A URL that a manifest must not state; the message says why, without the URL."""


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
            text = text if is_object_url(text) else _join(text, base_url)
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


def strip_secrets(url: str) -> str:
    """The URL with its whole path, and without the parts that ``SecretUrl`` never shows: query and login.

    >>> strip_secrets("https://me:pw@host/a/b.jpg?id=1&token=x#y"), strip_secrets("s3://bucket/why?.jpg")
    ('https://host/a/b.jpg', 's3://bucket/why?.jpg')
    """
    return url if is_object_url(url) else _LOGIN.sub("//", _TAIL.sub("", url))


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


def encode_url(text: str) -> str:
    """Encode spaces and characters outside ASCII as a browser does, unless the URL is signed.

    A URL whose query looks signed stays unchanged, as its signature is for one encoding. Characters that may
    not be encoded either, such as control characters, stay too.
    """
    if any(map(_SIGNS.search, _KEY.findall(text))):
        return text
    text = text.strip(" ")
    match = _PARTS.match(text)
    scheme, login, host, rest = (
        match.group("scheme", "login", "host", "rest") if match else ("", "", "", text)
    )
    try:
        host = spell_host(host)
    except ValueError:
        return text
    login, rest = (
        _TO_ENCODE.sub(lambda match: quote(match[0], safe=""), part or "") for part in (login, rest)
    )
    return scheme + login + host + rest


def spell_host(host: str) -> str:
    """A host's name as it is looked up: without percent-encoding, in ASCII. Raises ValueError."""
    if "%" in host:
        host = unquote(host, errors="strict")
        if _NO_HOST.search(host):
            raise _make_error(host, "ODD_HOST")
    if host.isascii():
        return host
    import idna

    return idna.encode(host, uts46=True).decode()


def make_relative_url(path: str) -> str:
    """A file's name as a relative URL (RFC 3986 section 4.2); a colon is encoded, so it ends no scheme.

    >>> make_relative_url("a b/50%:ü")
    'a%20b/50%25%3A%C3%BC'
    """
    # JSON may state half a surrogate pair: the check of the path reports it.
    return quote(path, safe="/~!$&'()*+,;=@", errors="surrogatepass")


def join_url(base_url: str, text: str) -> str:
    """Join a link that a server or a list states to the address of its document (RFC 3986, 5.3).

    All links are joined here, except those of object stores.

    Raises:
        UrlError: it has a scheme or ``//`` and no host, or no valid address.
    """
    if _NAMES_NO_HOST.match(text.lstrip(" ")):
        raise UrlError("it has no host")
    if _PLAIN_RELATIVE.match(text):  # the common case: a twentieth of urljoin's time, and `a//b` stays so
        stem = base_url.partition("#")[0].partition("?")[0]
        return (stem if stem.count("/") < 3 else stem.rpartition("/")[0]) + "/" + text
    scheme, _, rest = base_url.partition(":")
    if not is_web(base_url) and not _SCHEME.match(text):  # Python joins only URLs of schemes that it knows
        return scheme + join_url(f"{HTTP}:{rest}", text).removeprefix(HTTP)
    try:
        joined = urljoin(base_url, text)
    except ValueError:  # //[…, without an IPv6 address
        raise _make_error(text, "ODD_HOST") from None
    if "/." not in joined:
        return joined
    from cfetch.manifest.dot_segments import remove_dots  # few links have such segments

    return remove_dots(joined)


def _join(text: str, find_base: Callable[[], str | None]) -> str:
    is_plain = _PLAIN_RELATIVE.match(text)
    if not _VISIBLE.match(text) or (not is_plain and _SCHEME.match(text)):
        raise _make_error(text)
    base_url = find_base()
    if base_url is None:
        raise UrlError(
            "it is relative and there is no base_url; make it absolute, or state base_url (or --base-url)"
        )
    if is_object_url(base_url):
        return base_url + unquote(text.removeprefix("./"))
    return join_url(base_url, text)


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
