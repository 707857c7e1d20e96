"""Heads that state one length several times. Pure. Imported for the first such head."""

import re

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9, \t]*?)[ \t]*\Z", re.IGNORECASE)


def is_whole(head: bytes) -> bool:
    """Whether the end of the head has come."""
    return _HEAD_END.search(head) is not None


def mend_lengths(head: bytes) -> bytes | None:
    """A head that states one length several times, with that length once (RFC 9110 8.6).

    None: it does not. Raises ValueError: it states several lengths.
    """
    end = _HEAD_END.search(head)
    lines = [line.rstrip(b"\r") for line in (head if end is None else head[: end.start()]).split(b"\n")]
    stated = [match[1] for line in lines if (match := _LENGTH.match(line))]
    values = {value.strip() for text in stated for value in text.split(b",")}
    if not stated or (len(stated) == 1 and b"," not in stated[0]):
        return None
    if len(values) > 1:
        raise ValueError("the reply states several lengths")
    kept = [line for line in lines if not _LENGTH.match(line)]
    kept.insert(1, b"Content-Length: " + values.pop())
    return b"\r\n".join(kept) + (b"" if end is None else head[end.start() :])
