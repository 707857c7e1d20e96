"""Publishes a growing list as a feed: a JSON Lines file to which rows are appended."""

import hashlib
import os
import threading
from pathlib import Path

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import HostileFeed, UsageError
from cfetch.base.secret import printable
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.protocol import ANY_BASE_URL, decode_document, parse_change
from cfetch.plugins.follow.server.store import FeedStore, NewChange
from cfetch.storage.files import local_fault

BATCH = 1000  # changes of one transaction: a flush costs some milliseconds
MAX_LINE_BYTES = 1 << 20  # a page has to hold several lines
TAIL_BYTES = 4096  # hashed, to see that a stream is still the one that was read


class StreamPublisher:
    """Publishes the rows of a growing JSON Lines file; only whole lines count."""

    def __init__(
        self,
        path: Path,
        store: FeedStore,
        *,
        clock: Clock,
        split_entries: int | None = None,
        keep_s: float | None = None,
    ) -> None:
        self.path = path
        self._store = store
        self._clock, self._split_entries, self._keep_s = clock, split_entries, keep_s

    def scan(self, stop: threading.Event) -> int:
        """Publish new rows, and return their number; ends early once ``stop`` is set.

        Raises:
            LocalFault: the file cannot be read, or rows cannot be published. Published rows stay.
            UsageError: a row breaks the rules: no row from it on is published, and the next scan begins
                with it. Or the part of the file that had been read has changed.
        """
        published = 0
        try:
            with self.path.open("rb") as file:
                while not stop.is_set() and (lines := self._publish_batch(file.fileno())):
                    published += lines
        except OSError as error:
            raise local_fault(error, f"cannot read {printable(str(self.path))}") from None
        if self._keep_s is not None:
            now_s = self._clock.wall()
            self._store.forget(now_s - self._keep_s, now_s=now_s)
        return published

    def _publish_batch(self, descriptor: int) -> int:
        offset, line, tail = self._read_place()
        begin = max(0, offset - TAIL_BYTES)
        data = os.pread(descriptor, offset - begin + MAX_LINE_BYTES + 1, begin)
        before, data = data[: offset - begin], data[offset - begin :]
        if tail and hashlib.sha256(before).hexdigest() != tail:
            raise UsageError(
                f"{self._show_path()} is not the stream that was published: what had been read of it has "
                "changed; append to it only, and give another stream another --state"
            )
        lines = data.split(b"\n")[:-1][:BATCH]
        if not lines:
            if len(data) > MAX_LINE_BYTES:
                raise UsageError(
                    f"{self._show_path()}:{line + 1}: the line is longer than {MAX_LINE_BYTES} bytes"
                )
            return 0
        changes, fault, read = [], None, 0
        for text in lines:
            try:
                changes += [_parse_row(text, f"{self._show_path()}:{line + 1}")] if text.strip() else []
            except HostileFeed as error:
                fault = error
                break
            line += 1
            read += len(text) + 1
        if read:
            now = hashlib.sha256((before + data[:read])[-TAIL_BYTES:]).hexdigest()
            self._store.publish(
                changes,
                at_s=self._clock.wall(),
                marks={"stream": f"{offset + read} {line} {now}"},
                split_entries=self._split_entries,
            )
        if fault is not None:
            raise UsageError(f"{fault}; nothing from there on is published")
        return len(lines)

    def _read_place(self) -> tuple[int, int, str]:
        """The next byte to read, the number of lines before it, and the hash of the bytes before it."""
        offset, line, tail = (self._store.read_mark("stream") or "0 0 ").split(" ")
        return int(offset), int(line), tail

    def _show_path(self) -> str:
        return printable(str(self.path))


def _parse_row(text: bytes, what: str) -> NewChange:
    fields = decode_document(text, what)
    if type(fields) is not dict:
        raise HostileFeed(f"{what}: a row must be an object")
    if "lsn" in fields:
        raise HostileFeed(f"{what}: lsn is given by the feed; leave it out")
    change = parse_change({"op": "upsert"} | fields | {"lsn": 0}, Document(base_url=ANY_BASE_URL), what)
    if change.entry is None:
        return NewChange(change.path, key=change.key)
    rest = {name: value for name, value in fields.items() if name not in ("op", "path", "key")}
    return NewChange(change.path, more=msgspec.json.encode(rest).decode(), key=change.key)
