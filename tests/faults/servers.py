"""The servers of the simulation: a transport on virtual time that fails in every way a network knows.

It behaves as aiohttp does at the ``Transport`` port: a body of stated length or in chunks that ends early is
an error, one that the connection's end delimits is not, not even after a reset.
"""

import asyncio
import random
from collections import Counter, deque
from email.utils import formatdate
from urllib.parse import urlsplit

from multidict import CIMultiDict

from cfetch.base.errors import Refused, Transient
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.wire.fresh_link import Link
from tests.faults.world import EPOCH

__all__ = ["Network", "Signer"]

STUCK_S = 1e9
ONLY_A_HASH_TELLS = {"lying 206", "flipped byte"}
NOBODY_COULD_TELL = {
    "short",
    "longer",
    "html",
    "html chunked",
    "encoded",
}  # where the manifest states nothing
LONGEST_SILENCE_S = 0.5
PIECES = 6


class Network:
    """Keeps the ``Transport`` protocol. ``faulty`` false: the servers behave, each after its nature.

    ``on_step`` is told at each open and read, ``log`` what was asked and answered, ``leaks`` the secrets
    that went to another origin.
    """

    def __init__(self, world, *, on_step, log):
        self._world = world
        self._on_step = on_step
        self._log = log
        self._by_path = {entry.path: entry for entry in world.entries}
        self.faulty = True
        self.faults: Counter[str] = Counter()
        self.requests: Counter[str] = (
            Counter()
        )  # of this run, by path; without 429s, which are about the host
        self.total = 0
        self.read_bytes = 0  # of this run; what is saved from a broken attempt has come already
        self.leaks: list[str] = []
        self.open_now: set[Body] = set()
        self.signed: dict[str, float] = {}  # URL -> end of its life, wall seconds
        self.sent_to: dict[str, str] = {}  # URL that the signer made -> its origin

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        text = url.reveal()
        parts = urlsplit(text)
        path = parts.path[1:]
        self.requests[path] += 1
        self.total += 1
        self._check_secrets(url, path, secrets)
        rng = random.Random(f"{self._world.seed} {text} {self.total}")
        host, entry = self._world.hosts[parts.netloc], self._by_path[path]
        fault = self._draw(rng, host, entry)
        self.requests[path] -= fault == "429"
        asked = (headers.get("Range"), headers.get("If-Range"))
        self._log(f"{method} {text} {asked[0]} {asked[1]} fresh={fresh} fault={fault}")
        await self._arrive(rng, host, fault)
        now_s = asyncio.get_running_loop().time()
        self._on_step()
        version = self._world.objects[parts.netloc, path].at(now_s)
        reply = _Reply(version, host)
        if self._is_over(text):
            reply.fail(403)
        else:
            self._answer(reply, *asked, fault, rng)
        body = Body(self, reply, self._shape(host, _arrivals(reply, rng, now_s, host, fault)), fault)
        body.place = body.source = url
        self.open_now.add(body)
        self._log(f"{reply.status} {text} {len(reply.data)} bytes {reply.framing} {reply.ending}")
        return body

    def keep_at_most(self, most):
        """None are kept."""

    async def close(self):
        """Nothing to give back."""

    def step(self):
        """A read."""
        self._on_step()

    def _draw(self, rng, host, entry):
        if not self.faulty:
            return None
        now_s = asyncio.get_running_loop().time()
        if any(from_s <= now_s < to_s for from_s, to_s in host.outages):
            self.faults["outage"] += 1
            return "connect error"
        if rng.random() >= host.trouble:
            return None
        fault = rng.choice(self._world.faults)
        if fault in ONLY_A_HASH_TELLS and entry.digest is None:
            return None
        if fault in NOBODY_COULD_TELL and entry.digest is None and entry.size_bytes is None:
            return None
        self.faults[fault] += 1
        return fault

    async def _arrive(self, rng, host, fault):
        if fault == "silent":
            await asyncio.sleep(STUCK_S)
        await asyncio.sleep(host.latency_s * rng.uniform(0.8, 1.5))
        if fault == "connect error":
            raise Transient("cannot connect: Connection refused")

    def _shape(self, host, arrivals):
        if host.shaping is None or not self.faulty or not arrivals:
            return arrivals
        self.faults["shaped"] += 1
        return list(_shaped(host.shaping, arrivals))

    def _is_over(self, text):
        if self._world.signed_s is None or "sig=" not in text:
            return False
        end_s = self.signed.get(text, EPOCH + self._world.signed_s)
        return EPOCH + asyncio.get_running_loop().time() >= end_s

    def _check_secrets(self, url, path, secrets):
        entry = self._by_path[path]
        for value in secrets.values():
            owner = value.partition("|")[0]
            if (
                owner == "plan"
            ):  # theirs are the manifest's links and those that the signer puts in their place
                owner = self.sent_to.get(url.reveal(), entry.url.origin())
            if owner != url.origin():
                self.leaks.append(f"a header of {owner} went to {url.origin()}")

    def _answer(self, reply, range_text, if_range, fault, rng):
        first, _, last = range_text[6:].partition("-") if range_text else ("0", "", "")
        start = int(first)
        matches = if_range is None or (if_range == reply.version.etag) or fault == "ignores if-range"
        if range_text and matches and (reply.host.ranges or fault == "ignores if-range"):
            if start >= reply.total:
                reply.fail(416)
                return
            reply.range_from(start, int(last) + 1 if last else None)
        _FAULTY.get(fault, _nothing)(reply, rng, start)

    def over(self, body):
        """A response has been read to its end or closed."""
        self.open_now.discard(body)


class _Reply:
    """One reply in the making."""

    def __init__(self, version, host):
        self.version = version
        self.host = host
        self.status = 200
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.data = version.body
        self.total = self.end = version.size_bytes
        self.framing = host.framing
        self.stated = None  # a Content-Length that differs from the body
        self.ending = "whole"  # or reset, stall
        if version.etag is not None:
            self.headers["ETag"] = version.etag

    def fail(self, status, **headers):
        self.status, self.data, self.framing = status, b"<error/>", "length"
        self.headers = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})

    def range_from(self, start, end=None):
        self.status = 206
        self.end = min(self.total, self.end if end is None else end)
        self.data = self.version.body[start : self.end]
        self.headers["Content-Range"] = f"bytes {start}-{self.end - 1}/{self.total}"

    def cut_at(self, rng, ending):
        self.stated = len(self.data)
        self.data = self.data[: rng.randint(0, max(0, len(self.data) - 1))]
        self.ending = ending

    def finished_headers(self):
        headers = self.headers.copy()
        if self.framing == "length":
            headers["Content-Length"] = str(len(self.data) if self.stated is None else self.stated)
        elif self.framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        return headers


def _nothing(reply, rng, start):
    """As the server is."""


def _wrong_start(reply, rng, start):
    if reply.status == 206:
        reply.range_from(
            max(0, start - rng.randint(1, 9)) if rng.random() < 0.5 else min(start + 1, reply.end - 1)
        )


def _content_range(change):
    def apply(reply, rng, start):
        if reply.status == 206:
            change(reply, start)

    return apply


def _whole(reply, rng, start):
    if reply.status == 206:
        reply.status, reply.data = 200, reply.version.body
        del reply.headers["Content-Range"]


def _less(reply, rng, start):
    if reply.status == 206 and reply.end > start + 1:
        reply.range_from(start, rng.randint(start + 1, reply.end - 1))


def _unasked(reply, rng, start):
    if reply.status == 200 and reply.total:
        reply.range_from(0)


def _lying(reply, rng, start):
    if reply.status == 206:
        reply.data = reply.version.body[: len(reply.data)]


def _short(reply, rng, start):
    reply.data = reply.data[: rng.randint(0, max(0, len(reply.data) - 1))]


def _longer(reply, rng, start):
    reply.data += rng.randbytes(rng.randint(1, 5000))


def _html(framing):
    def apply(reply, rng, start):
        reply.status, reply.framing = 200, framing
        reply.data = b"<html>" + bytes(rng.randint(1, 9000)) + b"</html>"
        if len(reply.data) == reply.total:
            reply.data += b"\n"
        reply.headers = CIMultiDict({"Content-Type": "text/html", "ETag": '"html"'})

    return apply


def _encoded(reply, rng, start):
    reply.headers["Content-Encoding"] = "gzip"


def _flipped(reply, rng, start):
    if reply.data:
        data = bytearray(reply.data)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        reply.data = bytes(data)


def _status(status, **headers):
    return lambda reply, rng, start: reply.fail(status, **headers)


def _later(reply, rng, start):
    seconds = rng.choice((0, 1, 7, 4000))
    date = formatdate(EPOCH + asyncio.get_running_loop().time() + seconds, usegmt=True)
    reply.fail(503, Retry_After=rng.choice((str(seconds), date, "soon")))


_FAULTY = {
    "429": _status(429, Retry_After="2"), "503": _status(503), "503 later": _later, "500": _status(500),
    "502": _status(502), "408": _status(408), "404": _status(404), "403": _status(403), "416": _status(416),
    "reset": lambda reply, rng, start: reply.cut_at(rng, "reset"),
    "cut": lambda reply, rng, start: reply.cut_at(rng, "cut"),
    "stall": lambda reply, rng, start: reply.cut_at(rng, "stall"),
    "wrong start": _wrong_start,
    "no content-range": _content_range(lambda reply, start: reply.headers.pop("Content-Range")),
    "wrong total": _content_range(
        lambda reply, start: reply.headers.update(
            {"Content-Range": f"bytes {start}-{reply.end - 1}/{reply.total + 1}"})),
    "star total": _content_range(
        lambda reply, start: reply.headers.update({"Content-Range": f"bytes {start}-{reply.end - 1}/*"})),
    "less of it": _less, "200 for 206": _whole, "206 unasked": _unasked, "lying 206": _lying,
    "short": _short, "longer": _longer, "html": _html("length"), "html chunked": _html("chunked"),
    "encoded": _encoded, "flipped byte": _flipped,
}  # fmt: skip


def _arrivals(reply, rng, now_s, host, fault):
    """When which bytes come: (second, bytes)."""
    data = memoryview(reply.data)  # whose pieces are no copies
    lasts_s = len(data) / host.rate_bps
    if fault == "drip":
        lasts_s = rng.uniform(5, 40)
    elif fault == "straggler":
        lasts_s = lasts_s * rng.uniform(5, 40) + rng.uniform(0, 10)
    cuts = {rng.randint(0, len(data)) for _ in range(PIECES - 1)} | {len(data)}
    if fault is None:  # a server in good order is not silent for as long as the shortest stall time-out
        step = int(host.rate_bps * LONGEST_SILENCE_S)
        cuts |= set(range(step, len(data), step))
    pieces, last = [], 0
    for cut in sorted(cuts):
        if cut > last:
            pieces.append((now_s + lasts_s * cut / len(data), data[last:cut]))
        last = cut
    return pieces


def _shaped(shaping, arrivals):
    """The same bytes, held back: (second, bytes)."""
    sent, now_s = 0, arrivals[0][0]
    for came_s, data in arrivals:
        start, now_s = 0, max(came_s, now_s)
        while start < len(data):
            is_burst = sent < shaping.burst_bytes
            size = shaping.burst_bytes - sent if is_burst else max(1, int(shaping.rate_bps * shaping.pulse_s))
            piece, start = data[start : start + size], start + size
            now_s += 0.0 if is_burst else len(piece) / shaping.rate_bps
            now_s = next((to_s for from_s, to_s in shaping.freezes if from_s <= now_s < to_s), now_s)
            sent += len(piece)
            yield now_s, piece


class Body:
    """Keeps the ``Response`` protocol."""

    def __init__(self, network, reply, arrivals, fault):
        self.status = reply.status
        self.headers = reply.finished_headers()
        self.peer = "192.0.2.1:80"
        self.place = self.source = SecretUrl("")  # set by the network
        self.carried_bytes = 0
        self.tls_end = None
        self.hidden, self.phrase = (), b""
        self._network = network
        self._arrivals = deque(arrivals)
        self._ending = reply.ending
        self._delimited = reply.framing != "close"
        self._is_whole_by_length = reply.framing == "length" and reply.ending == "whole"

    async def read(self, most=-1):
        self._network.step()
        while self._arrivals:
            wait_s = self._arrivals[0][0] - asyncio.get_running_loop().time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if data := self.read_buffered(most):
                self._network.read_bytes += len(data)
                return data
        if self._ending == "stall":
            await asyncio.sleep(STUCK_S)
        self._network.over(self)
        if self._ending != "whole" and self._delimited:
            raise Transient("the body was cut off or is malformed")
        return b""

    def retire(self):
        """Every reply here has a connection of its own."""

    def read_buffered(self, most=-1):
        now_s = asyncio.get_running_loop().time() + 1e-9
        pieces, left = [], most
        while left and self._arrivals and self._arrivals[0][0] <= now_s:
            came_s, piece = self._arrivals.popleft()
            if 0 <= left < len(piece):
                self._arrivals.appendleft((came_s, piece[left:]))
                piece = piece[:left]
            pieces.append(piece)
            left -= len(piece)
        if self._arrivals and self._arrivals[0][0] <= now_s:  # a turn later, as for all that comes
            self._arrivals[0] = (now_s, self._arrivals[0][1])
        data = b"".join(pieces)
        if not self._arrivals and self._is_whole_by_length:
            self._network.over(self)  # as a real one: the last byte of a stated length is the end
        return data

    def close(self):
        self._network.over(self)


class Signer:
    """Keeps the ``UrlRefresher`` protocol: signs anew, at times names another host, at times fails."""

    def __init__(self, world, network):
        self._world = world
        self._network = network
        self._signed = 0

    async def refresh(self, entry, stale):
        self._signed += 1
        rng = random.Random(f"{self._world.seed} signer {self._signed}")
        await asyncio.sleep(rng.choice((0.0, 0.1)))
        if self._network.faulty and rng.random() < 0.2:
            raise rng.choice((Transient("the signer is busy"), Refused("the signer does not know it")))
        host = entry.url.host()
        if self._network.faulty and self._world.moves and entry.mirrors:
            host = rng.choice((host, *(mirror.host() for mirror in entry.mirrors)))
        url = SecretUrl(f"http://{host}/{entry.path}?sv=1&sr=b&se=1&sig={self._signed}")
        end_s = EPOCH + asyncio.get_running_loop().time() + self._world.signed_s
        self._network.signed[url.reveal()] = end_s
        self._network.sent_to[url.reveal()] = url.origin()
        headers: tuple[tuple[str, SecretText], ...] = ()
        if rng.random() < 0.6:
            headers = (("X-Key", SecretText(f"{url.origin()}|fresh")),)
        return Link(url, rng.choice((None, end_s)), headers)
