"""Replies that contradict themselves: several lengths, a length that no file has, two ETags. Pure.

Imported for the first such reply. The parser gets a head without such lengths, so that the end of the
connection ends the body; the judge sees them, and lets the manifest's size or hash decide.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace
from multidict import CIMultiDict

from cfetch.wire.headers import Headers
from cfetch.wire.verdict import Asked, ReplyAction, Verdict, refuse, refuse_range

HEAD_END = re.compile(rb"\r?\n\r?\n")
MOST_DIGITS = 19  # of 2**63 - 1
LENGTH = "Content-Length"
_CLOSES = re.compile(rb"connection[ \t]*:[ \t]*close[ \t]*\Z", re.IGNORECASE)
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9, \t]*?)[ \t]*\Z", re.IGNORECASE)
MOST_SHOWN = 40  # digits
HASH_WAY = "; state the hash in the manifest, or by cfetch get --sha256"
WAY = "; state the size or a hash in the manifest, or by cfetch get --sha256"


class PlainHead(NamedTuple):
    """A head without the lengths of which nobody knows which counts."""

    data: bytes
    lengths: tuple[bytes, ...] = ()


def is_whole(head: bytes) -> bool:
    """Whether the end of the head has come."""
    return HEAD_END.search(head) is not None


def mend_lengths(head: bytes) -> PlainHead | None:
    """A head that states one length several times, with that length once (RFC 9110 8.6).

    Several lengths are left out, and a number beyond all files if the end of the connection will end the
    body. None: the head states a length once.
    """
    end = HEAD_END.search(head)
    lines = [line.rstrip(b"\r") for line in (head if end is None else head[: end.start()]).split(b"\n")]
    stated = [match[1] for line in lines if (match := _LENGTH.match(line))]
    values = {
        value.strip().lstrip(b"0") or value.strip()[:1] for text in stated for value in text.split(b",")
    }
    is_beyond = any(len(value) > MOST_DIGITS for value in values) and any(map(_CLOSES.match, lines))
    is_odd = len(values) > 1 or is_beyond
    if not stated or (len(stated) == 1 and b"," not in stated[0] and not is_odd):
        return None
    kept = [line for line in lines if not _LENGTH.match(line)]
    if not is_odd:
        kept.insert(1, b"Content-Length: " + values.pop())
    return PlainHead(
        b"\r\n".join(kept) + (b"" if end is None else head[end.start() :]), tuple(sorted(values))
    )


def judge_odd(
    name: str,
    status: int,
    headers: Headers,
    asked: Asked,
    judge_body: Callable[[int, Headers, Asked], Verdict],
) -> Verdict:
    """Judge a reply that states ``name`` in several ways, or a length that is none."""
    values = headers.getall(name, [])
    without = CIMultiDict((key, value) for key in [*headers.keys()] for value in headers.getall(key, []))
    without.popall(name)
    if name != LENGTH:
        said = f"the reply has {len(values)} different {name} headers"
        return judge_body(status, without, asked) if asked.has_hash else refuse(f"{said}{HASH_WAY}")
    if not all(value.isascii() and value.isdigit() for value in values):
        return refuse("the reply's Content-Length is not a number")
    lengths = sorted({int(value) for value in values if len(value) <= MOST_DIGITS})
    if "Transfer-Encoding" in without:
        without.add(name, values[0])  # the judge of chunks has to know that there is one
    if not lengths and not (asked.has_hash or asked.size_bytes is not None or asked.options.accept_unframed):
        said = f"the reply states a length of {values[0][:MOST_SHOWN]} bytes, which no file has"
        return refuse(f"{said}{WAY}, or take it with --accept-unframed")
    verdict = judge_body(status, without, asked)
    if verdict.action is not ReplyAction.ACCEPT or verdict.framed or not lengths:
        return verdict
    said = f"the reply states several lengths, {' and '.join(map(str, lengths))} bytes"
    if asked.joins:
        return refuse_range(said)
    if verdict.coding is None and asked.size_bytes in lengths:
        return replace(verdict, skip_bytes=0, body_bytes=asked.size_bytes, total_bytes=asked.size_bytes)
    if verdict.coding is None and asked.has_hash and asked.base is None:
        return replace(verdict, skip_bytes=0, may_end=lengths[0])
    if asked.size_bytes is not None:
        return refuse(f"{said}, where the manifest says {asked.size_bytes}{HASH_WAY}")
    return refuse(f"{said}, and nothing says which is the file's{WAY}")
