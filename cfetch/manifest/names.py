"""Chooses the path of an entry, if the manifest states none, by the user's rule.

``last`` is the last segment of the URL's path. ``url-path`` keeps its directories too. ``row`` is the row's
number, in directories of 10,000, and ``hash`` the SHA-256 of the URL without its signature, in 256
directories; both keep the ending. ``url-query`` is the last segment with the query behind it, as wget names
files, but without a signature. ``header`` is the name that the server states, ``final-url`` the one in the
URL to which it redirects (``run/server_names.py``); until the server has been asked, the name is as for
``hash``. A byte range of a URL has its offset and length
before the name.
"""

import re
from hashlib import sha256
from urllib.parse import unquote, urlsplit

from cfetch.base.config.reading import ASKING
from cfetch.base.errors import UsageError
from cfetch.manifest.faults import UrlError
from cfetch.manifest.object_urls import split_object_url
from cfetch.manifest.urls import last_segment, strip_signature

ROWS_PER_DIRECTORY = 10_000
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}(?:\.(?:gz|bz2|xz|zst))?\Z")


def choose_path(url: str, index: int, name_by: str) -> str:
    """The path of entry ``index``, not checked yet, by all rules but ``last``, which is in ``urls.py``.

    Raises:
        UrlError: the URL has no such name.
    """
    object_url = split_object_url(url)
    path = urlsplit(url).path if object_url is None else object_url.key
    if name_by == "url-path":
        return _decode_path(path) if object_url is None else path
    if name_by == "url-query":
        query = "" if object_url else urlsplit(strip_signature(url)).query.replace("/", "%2F")
        name = last_segment(url)
        return f"{name}?{query}" if query else name
    suffix = find_ending(path).lower()
    if name_by == "row":
        return f"{index // ROWS_PER_DIRECTORY:05d}/{index:09d}{suffix}"
    digits = sha256(strip_signature(url).encode()).hexdigest()
    return f"{digits[:2]}/{digits[:40]}{suffix}"


def find_ending(path: str) -> str:
    """The ending of a name, with the dot; empty: it has none."""
    match = _ENDING.search(path)
    return match[0] if match else ""


def name_range(path: str, start: int, size_bytes: int) -> str:
    """The path for a range of the file at ``path``: in the same directory, with the same ending."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{start}-{size_bytes}-{name}"


def _decode_path(path: str) -> str:
    """The path of a URL as a relative path: each segment is percent-decoded once.

    Raises:
        UrlError: a segment decodes to a slash or to bytes that are not UTF-8, or the last one is empty.
    """
    segments = []
    for segment in path.lstrip("/").split("/"):
        try:
            name = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            raise UrlError("a segment of the url's path does not decode to UTF-8") from None
        if "/" in name:
            raise UrlError("a segment of the url's path decodes to a name with a slash")
        segments.append(name)
    if not segments[-1]:
        raise UrlError("the url's path ends without a file name")
    return "/".join(segments)


_RELATIVE = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]*:)(?:\./)?([^/?#.][^?#]*[^/?#]|[^/?#.])\Z")


def find_relative_path(url: str) -> str | None:
    """The path that a relative URL without a query means; None: it is another URL, or means none."""
    match = _RELATIVE.match(url) if "://" not in url else None
    if match is None:
        return None
    try:
        return _decode_path(match[1])
    except UrlError:
        return None


def refuse_server_names(name_by: str) -> None:
    """Raise UsageError for a rule that asks servers, for a command that asks no server for files."""
    if name_by in ASKING:
        raise UsageError(
            f"--name-by {name_by} asks the servers of the files, which this command does not do; "
            f"`cfetch manifest build LIST --name-by {name_by} -o FILE` writes a manifest with the names"
        )
