"""What was asked, and what a reply to it means. Pure: values; ``judge.py`` makes the verdicts."""

import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from cfetch.base.config.wire import CAREFUL, ReplyOptions
from cfetch.base.secret import SecretUrl

_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"')


class ReplyAction(Enum):
    """The step that the attempt has to take."""

    ACCEPT = "accept"
    REFUSE_RANGE = "refuse range"  # drop the part, ask again for the whole
    REFUSE = "refuse"  # this source cannot be used at all
    RETRY = "retry"
    WAIT = "wait"  # the server fetches or makes the file, and says when to ask again
    THROTTLE = "throttle"
    REFRESH = "refresh"  # the link has expired
    UNCHANGED = "unchanged"  # the file in place is the server's version


class Asked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts of the request by which its answer is judged; byte numbers are the file's.

    ``base``: where the file begins in the server's object, if the file is a range of the object; then
    ``size_bytes`` is known. ``has_hash``: the manifest's hash will prove the bytes. ``path`` and ``link``
    are the entry's.
    """

    from_byte: int = 0
    end_byte: int | None = None  # exclusive; None: to the end of the file
    size_bytes: int | None = None
    total_bytes: int | None = None  # the total size that the reply of the part's bytes stated
    validator: str | None = None  # the strong ETag of the part's bytes
    refuses_pages: bool = False  # by its name, the file is no web page
    unless: Mapping[str, str] = {}  # the headers by which the server can say that the file has not changed
    etag_hash: str | None = None  # the hash of the ETag of the file in place, if the ETag is too long
    standing_bytes: int | None = None  # the size of the file in place
    base: int | None = None
    has_hash: bool = False
    options: ReplyOptions = CAREFUL
    path: str = ""
    link: SecretUrl | None = None

    @property
    def joins(self) -> bool:
        """Whether the request asks for less than the whole file."""
        return self.from_byte > 0 or self.end_byte is not None

    @property
    def is_range(self) -> bool:
        """Whether the request asks for less than the whole object."""
        return self.base is not None or self.joins

    def find_end(self) -> int:
        """Find the end of the requested bytes in the file; only if the file is a range of an object."""
        assert self.size_bytes is not None
        return self.size_bytes if self.end_byte is None else self.end_byte


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``from_byte``: where the body begins; ``body_bytes``: its length; ``total_bytes``: the object's length.

    ``framed`` is false for a body that only the end of the connection ends. ``reason`` is for a person.
    ``skip_bytes``: the body is the whole object, and the requested range begins after these bytes.
    ``coding``: the body is to be decoded from these codings, with commas, the last one first. ``note``: what
    a person should know of an accepted reply. ``may_end``: the body may be over after so many bytes, though
    its connection is not.
    """

    action: ReplyAction
    reason: str = ""
    from_byte: int = 0
    body_bytes: int | None = None
    total_bytes: int | None = None
    validator: str | None = None
    framed: bool = True
    skip_bytes: int | None = None
    coding: str | None = None
    note: str = ""
    may_end: int | None = None


def refuse(reason: str) -> Verdict:
    """The verdict on a source that cannot be used at all."""
    return Verdict(action=ReplyAction.REFUSE, reason=reason)


def refuse_range(reason: str) -> Verdict:
    """The verdict on a reply that cannot be joined to the bytes that are there."""
    return Verdict(action=ReplyAction.REFUSE_RANGE, reason=reason)


def find_strong(etag: str | None) -> str | None:
    """The ETag if it is a strong one, which alone may join bytes of two replies."""
    return etag if etag is not None and _STRONG_ETAG.fullmatch(etag) else None
