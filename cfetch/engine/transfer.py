"""One entry in a worker's hands: its part, its sources, its tries, in the end its record.

Mutable, owned by one task at a time. Source 0 is the entry's own URL, the others are its mirrors. They are
tried by how often they failed this entry, then by when the file would have come from them (the placement's
rule: what is under way there and this file, by the measured speed), then in the manifest's order.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cfetch.engine.hosts import Hosts
from cfetch.errors import CfetchError, Corrupt, Expired, LocalFault, SourceError, Straggling
from cfetch.manifest.entry import Entry
from cfetch.records import AttemptRecord, FileRecord, Status
from cfetch.secret import SecretText, SecretUrl
from cfetch.storage.volume import Part
from cfetch.wire.refresh import Link

if TYPE_CHECKING:
    from cfetch.engine.batches.staging import Staging

__all__ = ["MAX_MITIGATIONS", "Transfer"]

MIN_PROGRESS_BYTES = 64 << 10  # a try that brings less is no progress
MAX_MITIGATIONS = (
    2  # a third slow connection in a row is the file's nature; the bar has risen four-fold by then
)
LEFT = 1 << 30  # failures of a source that is never asked again


class Transfer:
    """``errors`` counts failed tries, ``corrupt`` those that brought wrong bytes from the present source.

    ``mitigations`` counts cancelled stragglers, which cost no try. ``placed``: it has a place at its host.
    ``put_s``: when it was put back to wait for its next try, which may start at ``due_s``. ``is_new``: nobody
    has looked yet whether it is in place. ``staging`` is its batch on a volume, and ``task`` the worker that
    has it in hand; ``moved``: the batch goes elsewhere, so this transfer ends without a word.
    """

    __slots__ = (
        "_failures",
        "_is_owed",
        "_link_headers",
        "_own_host",
        "_own_url",
        "adopted_bytes",
        "attempts",
        "begun",
        "best_bytes",
        "changed",
        "corrupt",
        "due_s",
        "entry",
        "errors",
        "expires_at",
        "failed_helpers",
        "fault",
        "fresh",
        "gave_up",
        "headers",
        "helpers",
        "host",
        "index",
        "is_new",
        "mitigations",
        "moved",
        "must_refresh",
        "part",
        "placed",
        "placed_bytes",
        "progress_s",
        "put_s",
        "queue",
        "queued_s",
        "refreshes",
        "source",
        "staging",
        "start_s",
        "task",
        "url",
        "verified",
    )

    def __init__(
        self,
        entry: Entry,
        part: Part,
        *,
        index: int = 0,
        queue: int,
        host: str,
        now_s: float,
        staging: "Staging | None" = None,
    ) -> None:
        self.entry = entry
        self.index = index
        self.staging = staging
        self.task: asyncio.Task[None] | None = None
        self.is_new = True
        self.moved = False
        self.part = part
        self.queue = queue
        self._own_host = self.host = host
        self.start_s = self.progress_s = self.put_s = self.due_s = now_s
        self.queued_s = 0.0
        self.placed = False
        self.placed_bytes = 0  # for which it has its place
        self.source = 0
        self._failures = [0] * (1 + len(entry.mirrors))
        self._is_owed = False  # the present source may show the whole: wrong bytes may have been another's
        self.best_bytes = 0
        self.adopted_bytes = 0  # of the part that a dead run has left
        self.url: SecretUrl = entry.url
        self._own_url = entry.url  # a refreshed one in time, with headers of its own perhaps
        self._link_headers: tuple[tuple[str, SecretText], ...] = ()
        self.headers: tuple[tuple[str, SecretText], ...] = entry.headers
        self.expires_at = entry.expires_at
        self.errors = 0
        self.corrupt = 0
        self.mitigations = 0
        self.refreshes = 0
        self.must_refresh = False
        self.fresh = False
        self.verified = "none"
        self.gave_up = ""  # the limit that ended the tries, in words
        self.attempts: list[AttemptRecord] = []
        self.begun = 0  # attempts, those of further streams too
        self.helpers: frozenset[int] = frozenset()  # keys of the further streams
        self.failed_helpers = 0
        self.fault: LocalFault | None = None  # that one of them has met
        self.changed: asyncio.Future[None] | None = None  # done when one of them ends

    def host_of(self, source: int) -> str:
        """The host that a source is asked at."""
        return self.entry.mirrors[source - 1].host() if source else self._own_host

    @property
    def mirror(self) -> str | None:
        """The present source's host, if it is a mirror."""
        return self.host if self.source else None

    def usable_sources(self) -> Iterator[int]:
        """The sources that have not been left for good."""
        return (n for n, failures in enumerate(self._failures) if failures < LEFT)

    @property
    def wanted_bytes(self) -> int:
        """What is still to come, as far as that is known."""
        return max(0, (self.entry.size_bytes or 0) - self.part.position)

    def has_other_source(self, *, untried: bool = False) -> bool:
        """Whether there is another source to ask; ``untried``: one that has not failed this entry."""
        most = 0 if untried else LEFT - 1
        return any(failures <= most and n != self.source for n, failures in enumerate(self._failures))

    def best_source(self, hosts: Hosts, now_s: float) -> int | None:
        """The source for the next try, among those whose hosts bear one more; None if none does."""
        if not self.entry.mirrors:
            return 0 if hosts.opens_s(self.host, now_s) <= now_s else None
        stays = self.part.position > 0 and self.entry.digest is None  # elsewhere the bytes would be lost

        def cost(source: int) -> tuple[float, float, int]:
            at_home = source == self.source and (stays or self._is_owed)
            failures = self._failures[source] - (LEFT if self._is_owed else 0.5) * at_home
            return (failures, hosts.finish_s(self.host_of(source), self.wanted_bytes), source)

        open_now = [n for n in self.usable_sources() if hosts.opens_s(self.host_of(n), now_s) <= now_s]
        return min(open_now, key=cost, default=None)

    def move(self, source: int) -> None:
        """Ask another source from now on.

        An ETag speaks for the one URL that stated it (RFC 9110 8.8.3), so bytes of two sources are joined
        only under the manifest's hash.
        """
        if source == self.source:
            return
        self.source = source
        self.host = self.host_of(source)
        self.corrupt = 0
        self.fresh = False
        self.url = self.entry.mirrors[source - 1] if source else self._own_url
        if self.entry.digest is None:
            self.part.restart()
        self.part.came_from(mirror=source > 0)

    def leave_source(self) -> None:
        """The present source is wrong for good; the next begins with all its tries."""
        self._failures[self.source] = LEFT
        self.errors = 0

    def secrets(self, of_all: Mapping[str, str]) -> Mapping[str, str]:
        """The headers for the present source; another origin gets only those that came with its link."""
        own = {name: value.reveal() for name, value in self.headers} if self.headers else {}
        if self.url is self.entry.url or self.url.origin() == self.entry.url.origin():
            return {**of_all, **own} if own else of_all
        return {} if self.source else {n: value.reveal() for n, value in self._link_headers}

    def take(self, link: Link, *, counts: bool) -> None:
        """Use a fresh link from now on; ``counts`` if the server had refused the old one."""
        self.url = self._own_url = link.url
        self.expires_at = link.expires_at
        self._link_headers = link.headers
        self.headers = link.headers or self.headers
        self.refreshes += counts

    def note_progress(self, now_s: float) -> None:
        """Bytes that will be built upon, and more of them than ever: the limits begin anew."""
        if self.may_resume() and self.part.position >= self.best_bytes + MIN_PROGRESS_BYTES:
            self.best_bytes, self.progress_s, self.errors = self.part.position, now_s, 0

    def has_joined(self) -> bool:
        """Whether the last try went on with bytes that were there before it."""
        return bool(self.attempts) and self.attempts[-1].from_byte > 0

    def count(self, error: SourceError) -> None:
        """A try has failed. Stragglers and links that are over have limits of their own."""
        self.errors += not isinstance(error, Straggling | Expired)
        self._is_owed = isinstance(error, Corrupt) and self.has_joined()
        if self._is_owed:
            return
        self.corrupt += isinstance(error, Corrupt)
        loses_bytes = isinstance(error, Straggling) and self.entry.digest is None
        if not loses_bytes and not isinstance(error, Expired):  # slow is better than to begin anew
            self._failures[self.source] += 1

    def is_last_try(self, max_attempts: int) -> bool:
        """Whether a cancellation now could cost the file: such an attempt is immune."""
        return 0 < self.errors >= max_attempts - 1 or self.mitigations >= MAX_MITIGATIONS

    def may_resume(self) -> bool:
        """Whether bytes of another reply may follow the part's: a strong validator, or a hash to prove it."""
        return self.part.validator is not None or self.entry.digest is not None

    def record(
        self,
        status: Status,
        *,
        instant: str,
        volume: str,
        now_s: float,
        kept_bytes: int,
        error: CfetchError | None = None,
    ) -> FileRecord:
        """The entry's whole story. ``kept_bytes`` stay on the volume."""
        entry = self.entry
        elapsed_s = now_s - self.start_s
        fetched_bytes = max(0, kept_bytes - self.adopted_bytes)
        return FileRecord(
            instant=instant,
            id=entry.id,
            offset=entry.position,
            path=entry.path,
            host=self.host,
            size_bytes=entry.size_bytes,
            bytes=kept_bytes,
            status=status,
            verified=self.verified,
            volume=volume,
            queued_s=round(self.queued_s, 6),
            start_s=round(self.start_s, 6),
            end_s=round(now_s, 6),
            rate_bps=round(fetched_bytes / max(elapsed_s, 0.001), 1),
            stragglers=self.mitigations,
            attempts=self.attempts,
            error_kind=None if error is None else error.kind,
            error=None if error is None else f"{error}; {self.gave_up}" if self.gave_up else str(error),
            batch=None if self.staging is None else self.staging.batch.shown,
        )
