"""URLs of objects: ``s3://bucket/key``, ``gs://bucket/key`` and ``az://container/key``.

The key is written as it is, as for the stores' own tools: nothing is percent-encoded, and a question mark is
part of the key. The http(s) link is made and signed just before its request.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

from cfetch.base.schemes import OBJECT_STORES

_OBJECT = re.compile(
    rf"(?P<store>(?:{'|'.join(OBJECT_STORES)})://[A-Za-z0-9][A-Za-z0-9._-]*)(?:/(?P<key>[^\x00-\x1f\x7f\ud800-\udfff]*))?\Z"
)
_MAGIC = re.compile(r"[*?\[]")


class ObjectUrl(NamedTuple):
    """An object's key; ``store`` is the URL of its bucket or container, without a slash at its end."""

    store: str
    key: str


def split_object_url(text: str) -> ObjectUrl | None:
    """Split a URL into store and key; None if the bucket's name or a character of the key is not allowed."""
    match = _OBJECT.match(text)
    return None if match is None else ObjectUrl(match["store"], match["key"] or "")


def split_destination(url: str) -> ObjectUrl | None:
    """Split the URL of a destination, where obstore decodes percent signs."""
    return split_object_url(unquote(url))


def find_key_fault(key: str) -> str | None:
    """The fault of an object's key, as the end of a sentence that begins with «it»; None: no fault."""
    if not key:
        return "names no object in its bucket"
    if not {"", ".", ".."}.isdisjoint(key.split("/")):
        return "has a key with an empty, '.' or '..' component, which cfetch does not read"
    return None


class Listing(NamedTuple):
    """The objects of ``store`` below ``prefix`` whose rest of the key matches ``pattern``."""

    store: str
    prefix: str
    pattern: re.Pattern[str]


def make_listing(parts: ObjectUrl | None) -> Listing | None:
    """Make the listing of a prefix (a key that ends in a slash, or is empty) or a pattern.

    None: it is a single object, or there is no URL. In a pattern ``*`` and ``?`` stay within one component,
    and ``**`` does not.
    """
    if parts is None:
        return None
    if not parts.key or parts.key.endswith("/"):
        return Listing(parts.store, parts.key, re.compile(r".+", re.DOTALL))
    magic = _MAGIC.search(parts.key)
    if magic is None:
        return None
    end = parts.key.rfind("/", 0, magic.start()) + 1
    return Listing(parts.store, parts.key[:end], _translate(parts.key[end:]))


def _translate(pattern: str) -> re.Pattern[str]:
    """Translate a shell's pattern to a regular expression."""
    signs = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^]/]+\])", pattern)
    known = {"**/": r"(?:.+/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    made = "".join(
        known.get(sign) or (_translate_set(sign) if place % 2 else re.escape(sign))
        for place, sign in enumerate(signs)
    )
    return re.compile(rf"(?:{made})\Z", re.DOTALL)


def _translate_set(sign: str) -> str:
    negated = sign[1] == "!"
    members = sign[2 if negated else 1 : -1].replace("\\", r"\\").replace("^", r"\^").replace("[", r"\[")
    return f"(?!/)[{'^' if negated else ''}{members}]"
