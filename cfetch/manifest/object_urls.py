"""URLs of objects: ``s3://bucket/key``, ``gs://bucket/key`` and ``az://container/key``.

The key stands there as it is, as for the stores' own tools: nothing is percent-encoded, and a question mark
is a question mark. The link that is asked for is made, and signed, when it is asked for.
"""

import re
from typing import NamedTuple

SCHEMES = ("s3://", "gs://", "az://")
_OBJECT = re.compile(
    r"(?P<store>(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*)(?:/(?P<key>[^\x00-\x1f\x7f\ud800-\udfff]*))?\Z"
)
_MAGIC = re.compile(r"[*?\[]")


class ObjectUrl(NamedTuple):
    """``store`` is the bucket's or container's own URL, without a slash at its end."""

    store: str
    key: str


def is_object_url(text: str) -> bool:
    """Whether it has the scheme of an object store; it may be wrong in all other ways."""
    return text.startswith(SCHEMES)


def split_object_url(text: str) -> ObjectUrl | None:
    """Take a URL apart; None if no bucket has this name or no key these characters."""
    match = _OBJECT.match(text)
    return None if match is None else ObjectUrl(match["store"], match["key"] or "")


def find_key_fault(key: str) -> str | None:
    """What is wrong with the key of one object, as the end of a sentence that begins with «it»."""
    if not key:
        return "names no object in its bucket"
    if not {"", ".", ".."}.isdisjoint(key.split("/")):
        return "has a key with an empty, '.' or '..' component, which cfetch does not read"
    return None


class Listing(NamedTuple):
    """Which objects are meant: those of ``store`` below ``prefix`` whose further key ``pattern`` matches."""

    store: str
    prefix: str
    pattern: re.Pattern[str]


def parse_listing(text: str) -> Listing | None:
    """Read a prefix (a URL that ends in a slash, or a bucket's own) or a pattern; None for a single object.

    In a pattern ``*`` and ``?`` stay within one component, and ``**`` does not.
    """
    parts = split_object_url(text)
    return None if parts is None else make_listing(parts)


def make_listing(parts: ObjectUrl) -> Listing | None:
    """The same of a URL that has been taken apart."""
    if not parts.key or parts.key.endswith("/"):
        return Listing(parts.store, parts.key, re.compile(r".+", re.DOTALL))
    magic = _MAGIC.search(parts.key)
    if magic is None:
        return None
    end = parts.key.rfind("/", 0, magic.start()) + 1
    return Listing(parts.store, parts.key[:end], _translate(parts.key[end:]))


def _translate(pattern: str) -> re.Pattern[str]:
    """A shell's pattern as a regular expression."""
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
