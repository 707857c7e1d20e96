"""Compares a second reply for a whole file with the first one, which is under way. Pure."""

from cfetch.base.errors import Transient
from cfetch.engine.attempt import Attempt


def refuse_contradiction(first: Attempt, second: Attempt) -> None:
    """Raise Transient if the second reply, which is whole, is not of the version that the first one brings.

    Without a hash nobody knows which of the two is right.
    """
    if first.assignment.entry.digest is not None:
        return
    stated = [attempt.reply.verdict for attempt in (first, second)]
    etags = {verdict.validator for verdict in stated if verdict is not None and verdict.validator}
    is_other_size = first.size_bytes is not None and first.size_bytes != second.received
    if is_other_size or second.received < first.from_byte + first.received or len(etags) > 1:
        raise Transient("the second reply is of another version than the first one, which is under way")
