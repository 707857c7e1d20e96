"""What a status other than 200 and 206 means. Pure. Imported when the first such reply comes."""

from collections.abc import Mapping

from cfetch.storage.etags import is_same
from cfetch.wire.headers import Headers
from cfetch.wire.pauses import states_pause
from cfetch.wire.verdict import Asked, ReplyAction, Verdict, refuse, refuse_range

STATUS: Mapping[int, ReplyAction] = {
    401: ReplyAction.REFRESH,  # clouds answer 401 or 403 for an expired signature
    403: ReplyAction.REFRESH,
    408: ReplyAction.RETRY,
    420: ReplyAction.THROTTLE,
    421: ReplyAction.RETRY,
    425: ReplyAction.RETRY,
    429: ReplyAction.THROTTLE,
    430: ReplyAction.THROTTLE,
    501: ReplyAction.REFUSE,
    503: ReplyAction.THROTTLE,
    505: ReplyAction.REFUSE,
    509: ReplyAction.THROTTLE,
    529: ReplyAction.THROTTLE,
}
PROOF = "; if its body is the file, state the hash in the manifest, or by cfetch get --sha256"
NO_FILE = frozenset({201, 202, 204, 205, 207, 208, 226})  # the body is none, or is about something else
NO_BODY = frozenset({204, 304})  # whatever their headers say (RFC 9112 6.3)
# With the headers of a pause or of a limit that is used up, these mean: later.
LATER: Mapping[int, ReplyAction] = {
    202: ReplyAction.WAIT,
    403: ReplyAction.THROTTLE,
    409: ReplyAction.WAIT,
    413: ReplyAction.THROTTLE,
    423: ReplyAction.WAIT,
}


def judge_status(status: int, headers: Headers, asked: Asked) -> Verdict:
    """Judge a reply whose status is neither 200 nor 206, by the rules of ``judge.py``."""
    if status == 416 and asked.base is not None and not asked.joins:
        return refuse("HTTP 416: the server's object ends before the range that the manifest states")
    if status == 416 and asked.is_range:
        return Verdict(action=ReplyAction.REFUSE_RANGE, reason="HTTP 416: the server has no such range")
    if status == 304 and asked.unless:
        kept, stated = asked.etag_hash, headers.getall("ETag", [])
        if kept is not None and not all(is_same(kept, etag) for etag in stated):
            return refuse_range("HTTP 304 for a file of another ETag than the one in place came under")
        return Verdict(action=ReplyAction.UNCHANGED)
    if status in LATER and states_pause(headers):
        said = (
            "the file is being made or fetched there"
            if LATER[status] is ReplyAction.WAIT
            else "too many requests"
        )
        return Verdict(action=LATER[status], reason=f"HTTP {status}: {said}")
    action = STATUS.get(status)
    if action is None:
        action = ReplyAction.RETRY if 500 <= status <= 599 else ReplyAction.REFUSE
    return Verdict(action=action, reason=f"HTTP {status}")


def is_like_ok(status: int, asked: Asked) -> bool:
    """Whether a reply is judged like a 200: its class says so (RFC 9110 15.3), or a hash will prove it."""
    if asked.joins or asked.base is not None or asked.unless:
        return False
    if status in NO_BODY:
        return asked.size_bytes == 0
    return (200 <= status <= 299 and status not in NO_FILE) or (200 <= status <= 399 and asked.has_hash)
