"""What a hostile or broken server may answer, and what has to come of it: data, not code.

A case is a list of replies to the requests for one file, in order (the last repeats). ``expect`` says how the
file's entry ends, for each amount that the manifest may know of it:

- ``done``: exit code 0 and the right bytes under the final name.
- ``lie``: exit code 0 and other bytes. Nobody can tell them from the right ones with what is known; the
  metrics must then not claim that a hash was checked.
- any other word: exit code 1, nothing under the final name, and this word is the kind of the error.

The numbers at the start of each name are those of docs/conditions.md.
"""

import gzip
import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

__all__ = ["BIG", "BODY", "CASES", "HALF", "OTHER_BIG", "Case", "Drip", "Known", "Reply"]

Known = Literal["hash", "size", "nothing"]
Then = Literal["keep", "close", "reset"]

BODY = bytes(i * 7 % 251 for i in range(4096))
OTHER = BODY[::-1]
BIG = random.Random(7).randbytes(5 << 19)  # 2.5 MiB: parts of over 1 MiB outlive a run
OTHER_BIG = random.Random(8).randbytes(len(BIG))
HALF = 3 << 19
SERVER_SECRET = "CANARYSERVER"  # what error pages and redirects may hold, and nobody may be shown
V1, V2 = 'ETag: "v1"', 'ETag: "v2"'
ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b2J"


class Drip(NamedTuple):
    """``piece`` again and again, ``pause_s`` apart, until the client has gone."""

    piece: bytes
    pause_s: float = 0.0


class Reply(NamedTuple):
    """Bytes, pauses in seconds and drips in their order, and what becomes of the connection then."""

    steps: tuple[bytes | float | Drip, ...]
    then: Then = "keep"


@dataclass(frozen=True, repr=False)
class Case:
    """See the module. ``flags`` are options of ``cfetch download``; ``other``: replies of a second origin.

    ``other``'s URL stands for ``{other}`` in replies. ``ranges``: which requests ask for a part, where that
    matters. ``prior``: the first reply belongs to an earlier run that was cut off, for tools that resume.
    """

    name: str
    replies: tuple[Reply, ...]
    expect: Mapping[Known, str]
    body: bytes = BODY
    flags: tuple[str, ...] = ()
    other: tuple[Reply, ...] = ()
    ranges: Mapping[Known, tuple[bool, ...]] = field(default_factory=dict)
    prior: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """The conditions that it is a case of: ``3+5-…`` is one of both."""
        return tuple(int(number) for number in self.name.partition("-")[0].split("+"))

    def sha256(self) -> str:
        """Of the right bytes."""
        return hashlib.sha256(self.body).hexdigest()


def head(status: str = "200 OK", *fields: str, version: str = "HTTP/1.1") -> bytes:
    """A status line and ``fields``, with the empty line."""
    return "\r\n".join([f"{version} {status}", *fields, "", ""]).encode("latin-1")


def whole(body: bytes = BODY, *fields: str, status: str = "200 OK", then: Then = "keep") -> Reply:
    """A proper reply."""
    return Reply((head(status, f"Content-Length: {len(body)}", *fields) + body,), then)


def raw(*steps: bytes | float | Drip, then: Then = "close") -> Reply:
    """What was written by hand."""
    return Reply(steps, then)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", status: str = "200 OK", fields: tuple[str, ...] = (),
            then: Then = "keep") -> Reply:  # fmt: skip
    """A body in chunks; ``end`` is what follows them."""
    data = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return Reply((head(status, "Transfer-Encoding: chunked", *fields) + data + end,), then)


def rest(*fields: str, body: bytes = BIG[HALF:], start: int = HALF, total: object = len(BIG),
         etag: str = V1) -> Reply:  # fmt: skip
    """A 206 with ``body`` for what begins at ``start``."""
    stated = (f"Content-Range: bytes {start}-{start + len(body) - 1}/{total}", f"Content-Length: {len(body)}")
    return Reply((head("206 Partial Content", *stated, etag, *fields) + body,))


def cut(body: bytes = BIG, *fields: str, at: int = HALF, then: Then = "close") -> Reply:
    """The beginning of a proper reply."""
    return Reply((head("200 OK", f"Content-Length: {len(body)}", *(fields or (V1,))) + body[:at],), then)


def every(usual: str, **other: str) -> dict[Known, str]:
    """``usual`` however much is known, but for ``other``; what has an empty word is not played."""
    words: dict[Known, str] = {
        "hash": other.get("hash", usual),
        "size": other.get("size", usual),
        "nothing": other.get("nothing", usual),
    }
    return {known: word for known, word in words.items() if word}


def resumed(name: str, *replies: Reply, **expect: str) -> Case:
    """A case whose first reply was cut off half-way."""
    return Case(name, (cut(), *replies), every("done", **expect), body=BIG, prior=True)


def always(name: str, reply: Reply, outcome: str = "transient", *flags: str, **expect: str) -> Case:
    """A case of one reply, again and again."""
    return Case(name, (reply,), every(outcome, **expect), flags=flags)


def once(name: str, reply: Reply, **expect: str) -> Case:
    """A case whose server is well at the second request."""
    return Case(name, (reply, whole()), every("done", **expect))


def moved(location: str, status: str = "302 Found", *fields: str) -> Reply:
    """A redirect."""
    return whole(SERVER_SECRET.encode(), f"Location: {location}", *fields, status=status)


WHOLE_BIG = whole(BIG, V1)
GZIPPED = gzip.compress(BODY)
BOMB = gzip.compress(bytes(10 << 20))
WITHOUT_CODING = ("--encoded", "refuse")
IMPATIENT = ("--max-attempts", "1", "--stall-timeout", "300ms", "--check-interval", "50ms")
LENGTH = f"Content-Length: {len(BODY)}"
NO_LENGTH = head() + BODY
MULTIPART = b"--x\r\nContent-Range: bytes %d-%d/%d\r\n\r\n" % (HALF, len(BIG) - 1, len(BIG)) + BIG[HALF:]

FRAMING = (
    once("1-body-shorter-than-its-length", cut(BODY, at=1000)),
    always("1-always-cut", cut(BODY, "X: y", at=1000)),
    always("2-length-shorter-than-the-file", whole(BODY[:3000]), "refused", nothing="lie"),
    always("3-no-length-and-cut", raw(head(version="HTTP/1.0") + BODY[:3000]), nothing="refused"),
    always("3-no-length-but-whole", raw(NO_LENGTH), "done", nothing="refused"),
    once("4-reset-within-the-length", cut(BODY, at=1000, then="reset")),
    once("5-reset-without-a-length", raw(head() + BODY[:1000], then="reset"), nothing=""),  # no word: which
           # of body and reset the client sees first is chance
    once("6-chunks-end-early", chunked(BODY[:1000], end=b"", then="close")),
    always("6-always-cut-between-chunks", chunked(BODY[:1000], end=b"", then="close")),
    always("6-last-chunk-too-early", chunked(BODY[:1000]), nothing="lie"),
    once("7-chunk-size-is-no-number", chunked(BODY[:1000], end=b"zz\r\n")),
    once("7-chunk-size-overflows", chunked(BODY[:1000], end=b"f" * 40 + b"\r\n" + BODY[1000:])),
    once("7-chunk-size-is-negative", chunked(BODY[:1000], end=b"-5\r\n" + BODY[1000:])),
    always("8-two-lengths", raw(head("200 OK", LENGTH, "Content-Length: 3000") + BODY), "refused",
           size="done", hash="done"),  # the list decides
    always("9-length-and-chunks",
           raw(head("200 OK", "Content-Length: 3000", "Transfer-Encoding: chunked") + b"0\r\n\r\n"),
           nothing="refused"),
    always("9-unknown-transfer-coding",
           raw(head("200 OK", "Transfer-Encoding: gzip, chunked") + b"5\r\nhello\r\n0\r\n\r\n"), "refused"),
    always("10-negative-length", raw(head("200 OK", "Content-Length: -5") + BODY)),
    always("10-overflowing-length", raw(head("200 OK", f"Content-Length: {10**29}") + BODY[:3000])),
    always("10-length-is-no-number", raw(head("200 OK", "Content-Length: 4k") + BODY)),
    always("10-length-of-an-exabyte", raw(head("200 OK", f"Content-Length: {10**18}") + BODY[:3000]),
           "refused", nothing="transient"),
    always("11-bytes-after-the-body", Reply((head("200 OK", LENGTH) + BODY + b"more\r\n",))),
    always("11-a-second-reply-unasked",
           Reply((head("200 OK", LENGTH) + BODY + head("200 OK", LENGTH) + OTHER,)), "done"),
    resumed("12-starts-elsewhere", rest(start=1000, body=BIG[1000:]), WHOLE_BIG),
    resumed("12-ends-early", rest(body=BIG[HALF:-1]), WHOLE_BIG),
    resumed("13-no-content-range",
            Reply((head("206 P", V1, f"Content-Length: {len(BIG) - HALF}") + BIG[HALF:],)), WHOLE_BIG),
    resumed("14-wrong-total", rest(total=len(BIG) + 1), WHOLE_BIG),
    resumed("14-unknown-total", rest(total="*")),
    resumed("15-chunked-and-starts-elsewhere",
            chunked(BIG[1000:], status="206 P",
                    fields=(V1, f"Content-Range: bytes 1000-{len(BIG) - 1}/{len(BIG)}")), WHOLE_BIG),
    resumed("16-several-ranges",
            Reply((head("206 P", V1, "Content-Type: multipart/byteranges; boundary=x",
                        f"Content-Length: {len(MULTIPART)}") + MULTIPART,)), WHOLE_BIG),
    always("17-a-part-unasked", rest(start=0, body=BODY, total=len(BODY)), "done"),
    resumed("18-whole-file-instead", WHOLE_BIG),
    resumed("19-416", whole(b"", status="416 Range Not Satisfiable"), WHOLE_BIG),
    Case("20-part-longer-than-the-file",
         (cut(OTHER_BIG), whole(b"", "Content-Range: bytes */4096", status="416 x"), whole()),
         {"nothing": "done"}, prior=True),
    resumed("21-another-version", rest(body=OTHER_BIG[HALF:], etag=V2), WHOLE_BIG),
    resumed("21-another-version-whole-by-if-range", whole(BIG, V2)),
    resumed("21-another-version-under-the-same-etag", rest(body=OTHER_BIG[HALF:]), WHOLE_BIG,
            size="lie", nothing="lie"),
    Case("22-weak-etag", (cut(BODY, 'ETag: W/"v1"', at=1000), whole()), every("done"),
         ranges={"size": (False, False), "nothing": (False, False), "hash": (False, True)}),
    Case("22-no-etag", (cut(BODY, "X: y", at=1000), whole()), every("done"),
         ranges={"size": (False, False), "nothing": (False, False), "hash": (False, True)}),
    Case("23-a-replica-with-other-bytes", (whole(OTHER), whole()), {"hash": "done", "size": "lie"}),
    always("24-right-size-wrong-bytes", whole(OTHER), "lie", hash="corrupt"),
    always("25-two-locations", whole(b"", "Location: /a", "Location: /b", status="302 x"), "refused"),
    always("25-two-etags", whole(BODY, V1, V2), "refused"),
    always("25-two-encodings", whole(BODY, "Content-Encoding: identity", "Content-Encoding: br"), "done",
           *WITHOUT_CODING, nothing="refused"),
)  # fmt: skip

BOMBS = (
    always("26-gzip-unasked", whole(GZIPPED, "Content-Encoding: gzip"), "refused", *WITHOUT_CODING),
    resumed("27-gzip-on-a-part", rest("Content-Encoding: gzip"), WHOLE_BIG),
    always("28-gzip-bomb", whole(BOMB, "Content-Encoding: gzip"), "refused", *WITHOUT_CODING),
    always("29-chain-of-encodings", whole(BODY, f"Content-Encoding: {', '.join(['gzip'] * 400)}"), "done",
           *WITHOUT_CODING, nothing="refused"),
    always("30-endless-header", raw(b"HTTP/1.1 200 OK\r\nX: ", Drip(b"a" * 16384)), "refused"),
    always("31-endless-headers", raw(b"HTTP/1.1 200 OK\r\n", Drip(b"X-Header: 1\r\n" * 1000)), "refused"),
    always("31-endless-interim-replies", raw(Drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 20, 0.01)), "transient",
           *IMPATIENT),
    always("31-endless-trailers", raw(*chunked(BODY, end=b"0\r\n" + b"X-Trailer: 1\r\n" * 4000).steps,
                                      Drip(b"X-Trailer: 1\r\n" * 1000))),
    always("32-endless-body", raw(head(), Drip(BODY, 0.001)), "refused"),
    always("32-endless-chunks",
           raw(head("200 OK", "Transfer-Encoding: chunked"), Drip(b"4\r\nmore\r\n" * 1000, 0.001)),
           "refused", nothing=""),  # nothing known but the disk bounds it
    always("32-longer-than-stated", raw(NO_LENGTH + b"and more"), "refused"),
    always("33-one-byte-chunks", chunked(*(BODY[i : i + 1] for i in range(len(BODY)))), "done"),
)  # fmt: skip

SLOWNESS = (
    Case("35-stall-within-the-body", (Reply((*cut(BODY, V1, at=1000).steps, 60.0)), whole()), every("done"),
         flags=("--stall-timeout", "300ms", "--check-interval", "50ms")),
    always("35-stall-for-good", Reply((*cut(BODY, V1, at=1000).steps, 60.0)), "transient", *IMPATIENT),
    always("37-no-reply-at-all", Reply((60.0,)), "transient", *IMPATIENT),
    always("37-headers-drip", raw(b"HTTP/1.1 200 OK\r\nX: ", Drip(b"a", 0.05)), "transient", *IMPATIENT),
)  # fmt: skip

STATUSES = (
    *(once(f"41-{status}", whole(SERVER_SECRET.encode(), status=f"{status} x"))
      for status in (408, 421, 425, 429, 500, 502, 503, 504, 522, 524)),
    always("41-503-for-good", whole(b"", status="503 x"), "throttled"),
    *(once(f"42-retry-after-{name}", whole(b"", f"Retry-After: {value}", status="503 x"))
      for name, value in (("zero", "0"), ("garbage", "so on" + ESCAPE), ("negative", "-5"), ("empty", ""),
                          ("past", "Thu, 01 Jan 1970 00:00:00 GMT"))),
    Case("43-retry-after-a-day", (whole(b"", "Retry-After: 86400", status="503 x"), whole()),
         every("throttled")),
    always("45-401", whole(SERVER_SECRET.encode(), "WWW-Authenticate: Basic", status="401 x"), "expired"),
    always("46-403", whole(f"<Error>{SERVER_SECRET}</Error>".encode(), status="403 x"), "expired"),
    *(always(f"47-{status}", whole(SERVER_SECRET.encode(), status=f"{status} x"), "refused")
      for status in (404, 410)),
    always("48-error-page-as-200", whole(b"<html>please log in</html>"), "refused", nothing="lie"),
    *(always(f"49-{status}", Reply((head(f"{status} x", "Content-Length: 0"),)), "refused")
      for status in (204, 205, 304)),
    once("50-error-on-a-kept-connection", whole(BODY, status="500 x")),
    always("51-http-1.0", raw(head("200 OK", LENGTH, version="HTTP/1.0") + BODY), "done"),
    always("51-http-0.9", raw(BODY)),
    always("52-nul-in-a-header", raw(head("200 OK", LENGTH, "X: a\0b") + BODY)),
    Case("52-cr-in-a-header", (raw(head("200 OK", LENGTH, "X: a\rb") + BODY),), every("done")),
    always("52-header-without-a-colon", raw(head("200 OK", LENGTH, "X") + BODY)),
    always("52-header-with-a-space-before-its-colon", raw(head("200 OK", LENGTH, "X : y") + BODY)),
    always("53-escapes-in-a-reason", whole(ESCAPE.encode("latin-1"), f"X: {ESCAPE}", f"ETag: {ESCAPE}",
                                           status=f"404 {ESCAPE}"), "refused"),
)  # fmt: skip

REDIRECTS = (
    Case("54-fifty-hops", (*(moved(f"/{i}") for i in range(50)), whole()), every("done")),
    Case("54-fifty-one-hops", (*(moved(f"/{i}") for i in range(51)), whole()), every("refused")),
    always("54-circle", moved("/again"), "refused"),
    *(always(f"56-to-{scheme}", moved(f"{scheme}://127.0.0.1/etc/passwd"), "refused")
      for scheme in ("file", "ftp", "gopher")),
    Case("57-to-another-origin", (moved("{other}b"),), every("done"), other=(whole(),)),
    always("57-userinfo-in-the-target", moved(f"http://u:{SERVER_SECRET}@127.0.0.1:1/"), "transient"),
    Case("59-a-secret-in-the-target", (moved(f"/b?sig={SERVER_SECRET}"), whole()), every("done")),
    Case("59-a-secret-in-a-target-that-is-gone", (moved(f"/b?sig={SERVER_SECRET}"), whole(status="404 x")),
         every("refused")),
)  # fmt: skip

CASES = (*FRAMING, *BOMBS, *SLOWNESS, *STATUSES, *REDIRECTS)
