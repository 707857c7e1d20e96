"""What a Transfer-Encoding means: chunks, and codings that are no part of the file. Pure.

Imported for the first reply that has one.
"""

from cfetch.wire.codings import judge_coding, read_codings
from cfetch.wire.headers import Headers
from cfetch.wire.statuses import PROOF
from cfetch.wire.verdict import Asked, ReplyAction, Verdict, refuse, refuse_range

TWO_ENDS = (
    "the reply states a length and comes in chunks, which contradict each other; state the size or a hash in "
    "the manifest, or by cfetch get --sha256, or take its chunks with --accept-unframed"
)


def judge_transfer(
    status: int, headers: Headers, asked: Asked, range_text: str | None
) -> tuple[Verdict | None, bool]:
    """The verdict, or None if the reply is judged like any other; and whether the body is in chunks."""
    stated = headers.getall("Transfer-Encoding", [])
    words = [
        word
        for value in stated
        for part in value.lower().split(",")
        if (word := part.partition(";")[0].strip()) not in ("", "identity")
    ]
    is_chunked = "chunked" in words
    if is_chunked and not stated[-1].lower().rstrip().endswith("chunked") and words[-1] == "chunked":
        # another parser than cfetch's, which spells it anew, may not have read it as chunks
        return refuse("the reply has a Transfer-Encoding in a spelling that cfetch does not know"), is_chunked
    is_vouched = asked.has_hash or asked.size_bytes is not None or asked.options.accept_unframed
    if is_chunked and headers.getall("Content-Length", []) and not is_vouched:
        return refuse(TWO_ENDS), is_chunked
    others = [word for word in words if word != "chunked"]
    if not others:
        return None, is_chunked
    codings = read_codings(others)
    if len(codings) < len(others) and not is_chunked and asked.has_hash and not asked.joins:
        return None, is_chunked  # whatever it means, the hash will tell whether the file came
    if len(codings) < len(others) or words.index("chunked" if is_chunked else words[-1]) < len(others) - 1:
        return refuse(f"the reply has a Transfer-Encoding that cfetch does not know{PROOF}"), is_chunked
    if status == 206 or asked.end_byte is not None or asked.base is not None:
        return refuse_range(
            f"the reply to a range is encoded ({', '.join(codings)}) for the transfer"
        ), is_chunked
    inner = judge_coding(status, headers, asked, None, range_text, is_chunked)
    if inner is not None and inner.action is not ReplyAction.ACCEPT:
        return inner, is_chunked
    inside = (inner.coding,) if inner is not None and inner.coding else ()
    note = "" if inner is None else inner.note
    coding = ", ".join((*inside, *codings))
    return Verdict(action=ReplyAction.ACCEPT, framed=is_chunked, coding=coding, note=note), is_chunked
