"""Heads that state one length several times, or one that no file has. Pure. Imported for the first one."""

import re

HEAD_END = re.compile(rb"\r?\n\r?\n")
_CLOSES = re.compile(rb"connection[ \t]*:[ \t]*close[ \t]*\Z", re.IGNORECASE)
MOST_DIGITS = 19  # of 2**63 - 1
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9, \t]*?)[ \t]*\Z", re.IGNORECASE)


def is_whole(head: bytes) -> bool:
    """Whether the end of the head has come."""
    return HEAD_END.search(head) is not None


def mend_lengths(head: bytes) -> bytes | None:
    """A head that states one length several times, with that length once (RFC 9110 8.6).

    A number beyond all files is no length: it is left out if the end of the connection will end the body.
    None: the head states a length once. Raises ValueError: it states several lengths.
    """
    end = HEAD_END.search(head)
    lines = [line.rstrip(b"\r") for line in (head if end is None else head[: end.start()]).split(b"\n")]
    stated = [match[1] for line in lines if (match := _LENGTH.match(line))]
    values = {
        value.strip().lstrip(b"0") or value.strip()[:1] for text in stated for value in text.split(b",")
    }
    is_beyond = any(len(value) > MOST_DIGITS for value in values) and any(map(_CLOSES.match, lines))
    if not stated or (len(stated) == 1 and b"," not in stated[0] and not is_beyond):
        return None
    if len(values) > 1:
        raise ValueError("the reply states several lengths")
    kept = [line for line in lines if not _LENGTH.match(line)]
    if not is_beyond:
        kept.insert(1, b"Content-Length: " + values.pop())
    return b"\r\n".join(kept) + (b"" if end is None else head[end.start() :])
