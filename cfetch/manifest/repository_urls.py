"""URLs of files in Hugging Face repositories: ``hf://datasets/OWNER/NAME@REVISION/PATH``.

Hugging Face's own tools write them in this form. A model's repository has no word before its owner, or
``models/``. The default revision is ``main``. A path is written as it is, without percent-encoding. An
``endpoint`` is a hub's address, without a slash at its end.
"""

import re
from urllib.parse import quote, unquote

from cfetch.base.schemes import HF_START
from cfetch.manifest.object_urls import Listing, ObjectUrl

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_OID = re.compile("[0-9a-f]{40}")
_FILE = re.compile(
    rf"(?P<store>{HF_START}(?:(?P<kind>models|datasets|spaces)/)?(?!(?:models|datasets|spaces|kernels|buckets)/)"
    rf"(?P<name>{_NAME}/{_NAME})"
    r"(?:@(?P<revision>refs/(?:convert/[\w.-]+|pr/\d+)|[^/\x00-\x20\x7f]+))?)"
    r"(?:/(?P<key>[^\x00-\x1f\x7f\ud800-\udfff]*))?\Z",
    re.ASCII,
)


_PAGE = re.compile(
    rf"https://huggingface\.co/(?P<place>(?:datasets/|spaces/)?{_NAME}/{_NAME})(?:/tree/(?P<revision>[^?#\s]+))?/?\Z"
)


def find_repository(page: str) -> str | None:
    """The URL of all files of the repository that a page at Hugging Face shows; None: it is no such page."""
    match = _PAGE.match(page)
    if match is None:
        return None
    revision = f"@{unquote(match['revision'])}" if match["revision"] else ""
    store = f"{HF_START}{match['place']}{revision}"
    return f"{store}/" if _FILE.match(store) else None


def split_repository_url(text: str) -> ObjectUrl | None:
    """Split a URL into the repository's URL and a path; None if it names no repository."""
    match = _FILE.match(text)
    return None if match is None else ObjectUrl(match["store"], match["key"] or "")


def make_link(url: ObjectUrl, endpoint: str) -> str:
    """The address of the file at the hub."""
    kind, name, revision = _take_apart(url.store)
    stem = name if kind == "models" else f"{kind}/{name}"
    return f"{endpoint}/{stem}/resolve/{revision}/{quote(url.key)}"


def make_tree_address(listing: Listing, endpoint: str) -> str:
    """The address of the list of files below the prefix, without a query."""
    kind, name, revision = _take_apart(listing.store)
    below = quote(listing.prefix.rstrip("/"), safe="")
    return f"{endpoint}/api/{kind}/{name}/tree/{revision}{'/' if below else ''}{below}"


def find_git_hash(oid: object, size_bytes: object) -> dict[str, object]:
    """The hash of a file that git itself stores, as a field of a row: ``oid`` is a hash of the content."""
    is_hash = isinstance(oid, str) and _OID.fullmatch(oid) is not None and isinstance(size_bytes, int)
    return {"git_sha1": oid} if is_hash else {}


def _take_apart(store: str) -> tuple[str, str, str]:
    """Kind, name and revision; the revision is encoded for an address."""
    match = _FILE.match(store)
    assert match is not None
    revision = unquote(match["revision"] or "main")
    return match["kind"] or "models", match["name"], quote(revision, safe="")
