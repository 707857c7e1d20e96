"""Completes links that cannot be sent as they stand: relative ones, and those with unencoded characters."""

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, urljoin

from cfetch.base.schemes import HTTP, WEB_PATTERN, is_object_url, is_web
from cfetch.manifest.faults import UrlError
from cfetch.manifest.url_faults import ODD_HOST, find_url_fault

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_VISIBLE = re.compile(r"[!-~]+\Z")
# Python joins them as if they were relative, so that the base's own server would be asked for another file.
_NAMES_NO_HOST = re.compile(rf"{WEB_PATTERN}:(?!//[^/?#\\])|//(?![^/?#\\])")
_PLAIN_RELATIVE = re.compile(r"(?!\.)[^:/?#]+(?:/(?!\.)[^/?#]*)*(?:\?[^#]+)?\Z")
_NO_HOST = re.compile(r"[\x00-\x20\x7f/?#@:%\[\]\\]")
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<login>[^/?#]*@)?(?P<host>[^/?#:]*)(?P<rest>.*)\Z", re.DOTALL
)
_TO_ENCODE = re.compile("[ \u00a0-\ud7ff\ue000-\U0010ffff]+")
# Two patterns, each of which reads a character once: a single pattern took cubic time.
_KEY = re.compile(r"[?&]([^=&#?]*)=")
_SIGNS = re.compile(r"sig|token|credential|policy|hmac|expires", re.IGNORECASE)


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
            raise UrlError(ODD_HOST)
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
        raise UrlError(ODD_HOST) from None
    if "/." not in joined:
        return joined
    from cfetch.manifest.dot_segments import remove_dots  # few links have such segments

    return remove_dots(joined)


def join_to_base(text: str, find_base: Callable[[], str | None]) -> str:
    """Join a link to its base, if it is relative. Raises UrlError: it is not, or there is no base."""
    is_plain = _PLAIN_RELATIVE.match(text)
    if not _VISIBLE.match(text) or (not is_plain and _SCHEME.match(text)):
        raise UrlError(find_url_fault(text))
    base_url = find_base()
    if base_url is None:
        raise UrlError(
            "it is relative and there is no base_url; make it absolute, or state base_url (or --base-url)"
        )
    if is_object_url(base_url):
        return base_url + unquote(text.removeprefix("./"))
    return join_url(base_url, text)
