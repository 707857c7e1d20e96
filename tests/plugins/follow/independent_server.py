"""A feed server written from docs/feed-protocol.md alone; it shares no code with cfetch.

Only the standard library is used. What the document leaves to a server differs from the reference server:
LSNs have gaps, pages have few changes, ids are words, there are no marks, and a range may close while a
reader is between two pages.
"""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

SCHEMA = "cfetch.feed/1"
END = 1 << 128
PAGE = 7  # changes of an answer at most


class _Refusal(Exception):
    def __init__(self, status: int, **members: Any) -> None:
        super().__init__(status)
        self.status, self.members = status, members


class _Range:
    def __init__(self, low: int, high: int, ancestors: set[str], first: int) -> None:
        self.low, self.high, self.ancestors, self.first = low, high, ancestors, first
        self.last: int | None = None
        self.next = first
        self.kept_from = first
        self.rows: list[tuple[int, dict[str, Any]]] = []  # with their age: how many came before in the feed


class IndependentFeed:
    """One feed. All methods may be called while it is served; ``url`` is its address."""

    def __init__(self, dice: Any) -> None:
        self.dice = dice
        self.feed = f"feed-{dice.randrange(10**9)}"
        self.version = self.published = 0
        self.ranges = {"root": _Range(0, END, set(), 0)}
        self.live = ["root"]
        self.busy = 0  # so many reads are answered as while a range splits
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def publish(self, path: str, size: int | None) -> None:
        """Append a version of so many bytes, or a delete."""
        key = int.from_bytes(hashlib.sha256(path.encode()).digest()[:16], "big")
        with self.lock:
            (owner,) = (self.ranges[n] for n in self.live if self.ranges[n].low <= key < self.ranges[n].high)
            row = {"lsn": owner.next, "path": path, "op": "delete" if size is None else "upsert"}
            if size is not None:
                row |= {"url": f"files/{path}", "size": size}
            self.published += 1
            owner.rows.append((self.published, row | {"key": f"{key:032x}"}))
            owner.next += self.dice.choice((1, 1, 2, 50))

    def split(self) -> None:
        """Replace a live range by two or three."""
        with self.lock:
            name = self.dice.choice(self.live)
            old = self._close(name)
            cuts = sorted({old.low, old.high, *(self.dice.randrange(old.low, old.high) for _ in range(2))})
            ancestors = {name, *old.ancestors}
            for low, high in pairwise(cuts):
                self._begin(_Range(low, high, ancestors, old.next))

    def merge(self) -> None:
        """Replace two neighbours by one, if there are two."""
        with self.lock:
            if len(self.live) < 2:
                return
            self.live.sort(key=lambda name: self.ranges[name].low)
            n = self.dice.randrange(len(self.live) - 1)
            names = self.live[n], self.live[n + 1]
            lower, upper = (self._close(name) for name in names)
            ancestors = {*names, *lower.ancestors, *upper.ancestors}
            self._begin(_Range(lower.low, upper.high, ancestors, max(lower.next, upper.next)))

    def forget(self, share: float) -> None:
        """Drop the oldest changes of the feed."""
        with self.lock:
            kept = sorted(age for each in self.ranges.values() for age, _ in each.rows)
            ages = set(kept[: int(len(kept) * share)])
            for each in self.ranges.values():
                count = sum(age in ages for age, _ in each.rows)
                if count:
                    each.kept_from = each.rows[count - 1][1]["lsn"] + 1
                    del each.rows[:count]

    def _close(self, name: str) -> _Range:
        self.live.remove(name)
        old = self.ranges[name]
        old.last = old.next - 1
        return old

    def _begin(self, new: _Range) -> None:
        self.version += 1
        name = f"r{len(self.ranges)}.{self.dice.randrange(1000)}"
        self.ranges[name] = new
        self.live.append(name)

    def answer(self, target: str, known: str | None) -> tuple[int, str, dict[str, Any] | None]:
        """Status, ETag and document of a request."""
        place = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(place.query).items()}
        with self.lock:
            if place.path == "/":
                etag = f'"{self.feed}.{self.version}"'
                return (304, etag, None) if known == etag else (200, etag, self._list())
            if query["feed"] != self.feed:
                raise _Refusal(410, code=1000)
            via, of = query["via"], query["of"]
            if via not in self.live:
                raise _Refusal(410, code=1002)
            if of != via and of not in self.ranges[via].ancestors:
                raise _Refusal(400)
            asked = self.ranges[of]
            if place.path == "/info":
                return 200, "", {"range": of, "first": asked.first, "last": asked.last}
            if place.path == "/read":
                if self.busy:
                    self.busy -= 1
                    raise _Refusal(410, code=1007)
                page = self._read(asked, query)
                etag = f'"{page["next_lsn"]}"'
                is_known = known == etag and not page["changes"] and asked.last is None
                return (304, etag, None) if is_known else (200, etag, {"range": of} | page)
            raise _Refusal(404)

    def _list(self) -> dict[str, Any]:
        rows = []
        for name in self.live:
            each = self.ranges[name]
            high = "" if each.high == END else f"{each.high:032x}"
            row = {"id": name, "keys": f"{each.low:032x}-{high}"}
            rows.append(row | {"ancestors": self.dice.sample(sorted(each.ancestors), len(each.ancestors))})
        return {"ranges": rows}

    def _read(self, asked: _Range, query: dict[str, str]) -> dict[str, Any]:
        next_lsn = int(query["next_lsn"])
        low, _, high = query["keys"].partition("-")
        if next_lsn == 0:
            next_lsn = asked.kept_from
        if next_lsn < asked.kept_from:
            raise _Refusal(416, kept_from=asked.kept_from)
        if asked.last is None and next_lsn > asked.next:
            raise _Refusal(409, next_lsn=asked.next)
        looked = [row for _, row in asked.rows if row["lsn"] >= next_lsn]
        page = looked[: min(PAGE, int(query["limit"]))]
        keys = range(int(low, 16), int(high, 16) if high else END)
        wanted = [row for row in page if int(row["key"], 16) in keys]
        is_end = len(page) == len(looked)
        next_lsn = max(next_lsn, asked.next) if is_end else page[-1]["lsn"] + 1
        return {"next_lsn": next_lsn, "changes": wanted}


def _handler(feed: IndependentFeed) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            try:
                status, etag, members = feed.answer(self.path, self.headers.get("If-None-Match"))
                members = members if members is None else {"feed": feed.feed} | members
            except _Refusal as refusal:
                status, etag, members = refusal.status, "", {"error": "refused"} | refusal.members
            body = b"" if members is None else json.dumps({"schema": SCHEMA} | members).encode()
            self.send_response(status)
            if etag:
                self.send_header("ETag", etag)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
