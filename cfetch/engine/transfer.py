"""The state of one entry in a worker's hands: its part, its sources, its tries, and in the end its record.

It is mutable, and owned by one task at a time. The next source is the one that failed this entry least often;
then the one from which the file would come first (the placement's rule: the bytes under way there and this
file, divided by the measured speed); then the manifest's order counts.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import UNSET

from cfetch.base.errors import CfetchError, Corrupt, Expired, NotReady, SourceError, Straggling, Throttled
from cfetch.base.records import AttemptRecord, FileRecord, Status, round_rate, round_s
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.engine.hosts import UNAVAILABLE, Hosts
from cfetch.manifest.entry import Entry
from cfetch.storage.volume_values import Standing
from cfetch.wire.fresh_link import Link

if TYPE_CHECKING:
    from cfetch.engine.entry_helpers import Helpers
    from cfetch.storage.volume import PartPort

MIN_PROGRESS_BYTES = 64 << 10  # a try that brings less is no progress
LEFT = 1 << 30  # failures of a source that is never asked again


class EntrySources:
    """The sources of one entry: source 0 is its own URL, the others are its mirrors.

    ``number`` is the present source, at ``host``. ``slot_bytes``: for how many bytes the entry has a slot
    there; None: it has none. ``corrupt`` counts tries that brought wrong bytes from the present source.
    ``place``: the address, after redirects, from which the first of the present bytes came.
    """

    __slots__ = (
        "_failures",
        "_is_owed",
        "_mirrors",
        "_own_host",
        "corrupt",
        "host",
        "number",
        "place",
        "slot_bytes",
    )

    def __init__(self, own_host: str, mirrors: Sequence[SecretUrl]) -> None:
        self._own_host = self.host = own_host
        self._mirrors = mirrors
        self._failures = [0] * (1 + len(mirrors))
        # True: wrong bytes may be another source's, so this one gets a try from the first byte.
        self._is_owed = False
        self.number = 0
        self.corrupt = 0
        self.place: SecretUrl | None = None
        self.slot_bytes: int | None = None

    @property
    def mirror(self) -> str | None:
        """The present source's host, if it is a mirror."""
        return self.host if self.number else None

    def host_of(self, number: int) -> str:
        """The host that a source is asked at."""
        return self._mirrors[number - 1].host() if number else self._own_host

    def usable(self) -> Iterator[int]:
        """The sources that have not been left for good."""
        return (number for number, failures in enumerate(self._failures) if failures < LEFT)

    def has_other(self) -> bool:
        """Whether there is another source to ask."""
        return any(number != self.number for number in self.usable())

    def has_untried(self, hosts: Hosts, now_s: float) -> bool:
        """Whether another source, which has not failed this entry, can be asked now."""
        others = (self.host_of(number) for number in self._list_untried() if number != self.number)
        return any(hosts.opens_s(host, now_s) <= now_s for host in others)

    def eligible(self, hosts: Hosts, now_s: float, tries_left: int) -> list[int]:
        """The sources for the next try, which may have to wait for the host of one of them.

        Each source is asked once before the tries are used up: if no more tries are left than there are
        sources that have not failed, only these are eligible, but for those whose hosts are given up.
        """
        untried = [n for n in self._list_untried() if hosts.given_up(self.host_of(n), now_s) is None]
        return untried if untried and tries_left <= len(untried) else list(self.usable())

    def _list_untried(self) -> Iterator[int]:
        return (number for number, failures in enumerate(self._failures) if not failures)

    def best(
        self, hosts: Hosts, now_s: float, size_bytes: int, *, stays: bool, tries_left: int
    ) -> int | None:
        """The eligible source for the next try whose host bears one more; None if there is none.

        ``stays``: with another source the bytes that are there would be lost. With one try left the entry's
        own URL is asked before any mirror, as a mirror may hold another version.
        """

        def cost(number: int) -> tuple[float, float, int]:
            failures: float = self._failures[number]
            if number == self.number and self._is_owed:
                failures -= LEFT  # before all others
            elif number == self.number and stays:
                failures -= 0.5  # before others that have failed as often
            return (failures, hosts.finish_s(self.host_of(number), size_bytes), number)

        eligible = self.eligible(hosts, now_s, tries_left)
        open_now = [n for n in eligible if hosts.opens_s(self.host_of(n), now_s) <= now_s]
        if tries_left <= 1 and 0 in open_now and not self._failures[0]:
            return 0
        return min(open_now, key=cost, default=None)

    def move(self, number: int) -> None:
        """Ask another source from now on."""
        self.number, self.host, self.corrupt = number, self.host_of(number), 0
        self.place = None

    def note_origin(self, place: SecretUrl) -> bool:
        """Note where bytes come from; whether they may follow the present ones: an ETag is one origin's."""
        if self.place is None:  # the present bytes are from an earlier run
            self.place = place
        return self.place is place or self.place.origin() == place.origin()

    def leave(self) -> None:
        """Stop using the present source for good."""
        self._failures[self.number] = LEFT

    def leave_mirrors(self) -> bool:
        """Ask only the entry's own URL from now on; whether that has not failed yet."""
        if self._failures[0]:
            return False
        self._failures[1:] = [LEFT] * len(self._mirrors)
        return True

    def count(self, error: SourceError, *, has_joined: bool, has_digest: bool) -> None:
        """Count a failed try at the present source; ``has_joined``: it continued bytes from before."""
        is_corrupt = isinstance(error, Corrupt)
        self._is_owed = is_corrupt and has_joined
        if self._is_owed:
            return
        self.corrupt += is_corrupt
        loses_bytes = isinstance(error, Straggling) and not has_digest
        if not loses_bytes and not isinstance(error, Expired):  # a slow source is better than beginning anew
            self._failures[self.number] += 1


class RequestAccess:
    """How the present source is asked: the URL, the headers, and whether over a new connection.

    ``link`` is the entry's own: from the manifest or refreshed, perhaps with headers of its own.
    ``standing``: the file in place; the entry's own server is asked whether the file has changed.
    """

    __slots__ = (
        "_entry",
        "asked_s",
        "is_fresh",
        "is_renewed",
        "link",
        "must_refresh",
        "refreshes",
        "standing",
        "url",
    )

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.link = Link(entry.url, entry.expires_at)
        self.url: SecretUrl = entry.url
        self.is_renewed = False
        self.asked_s = 0.0  # when the latest try began, in seconds since 1970
        self.refreshes = 0
        self.must_refresh = False
        self.is_fresh = False  # over a new connection
        self.standing: Standing | None = None

    def move(self, source: int) -> None:
        """Ask another source from now on."""
        self.url = self._entry.mirrors[source - 1] if source else self.link.url
        self.is_fresh = False

    def renew(self, link: Link, *, counts: bool) -> None:
        """Use a fresh link from now on; ``counts`` if the server had refused the old one."""
        self.link, self.url = link, link.url
        self.is_renewed = True
        self.refreshes += counts
        self.must_refresh = False

    @property
    def headers(self) -> tuple[tuple[str, SecretText], ...]:
        """The headers for the entry's link: the link's own, or else the manifest's for the entry."""
        return self.link.headers or self._entry.headers

    def secrets(self, of_all: Mapping[str, str], source: int) -> Mapping[str, str]:
        """The headers for the present source; those of the manifest or of a link are for its origin only."""
        is_own = self.url is self._entry.url or self.url.origin() == self._entry.url.origin()
        if source and not (is_own and self.url.origin() == self.link.url.origin()):
            headers = self._entry.headers if is_own else ()
        else:
            headers = self.headers if is_own else self.link.headers
        if not headers:
            return of_all if is_own else {}
        own = {name: value.reveal() for name, value in headers}
        return {**of_all, **own} if is_own else own


class Tries(msgspec.Struct, gc=False):
    """Counts the tries of an entry and their progress.

    ``begun`` counts attempts, those of helpers too; ``errors`` failed tries; ``mitigations`` cancelled
    stragglers, which cost no try; ``below_min_rate`` attempts that were cancelled for the stated rate, which
    never make an entry immune. ``best_bytes`` is the most that was ever there, at ``progress_s``.
    ``gave_up``: the limit that ended the tries, in words. ``silences``: stragglers in a row that had not
    brought a byte. ``unheard`` counts attempts whose first byte took too long.
    """

    progress_s: float
    begun: int = 0
    errors: int = 0
    mitigations: int = 0
    below_min_rate: int = 0
    best_bytes: int = 0
    silences: int = 0
    unheard: int = 0
    gave_up: str = ""

    def note_progress(self, position: int, now_s: float) -> None:
        """Note bytes that later attempts can continue; if there are more than ever, the limits begin anew."""
        if position >= self.best_bytes + MIN_PROGRESS_BYTES:
            self.best_bytes, self.progress_s, self.errors = position, now_s, 0

    def has_one_failure_left(self, max_attempts: int) -> bool:
        """Whether the next failed try would be the entry's end."""
        return 0 < self.errors >= max_attempts - 1


class Waits(msgspec.Struct, gc=False):
    """When an entry was first taken in hand, and how long it has waited for its tries since.

    ``put_s``: when it was put back to wait for its next try, which may start at ``due_s``.
    """

    start_s: float
    put_s: float
    due_s: float
    queued_s: float = 0.0


class StagedBatch(Protocol):
    """The batch of an entry on a volume, as its transfer sees it (``engine/batches/staging.py``)."""

    volume_index: int

    @property
    def shown(self) -> str:
        """The name of the batch in messages."""


class Transfer:
    """An entry that is being brought to its end.

    ``adopted_bytes``: the bytes taken over from a dead run; None until they have been looked for.
    ``staging`` is its batch on a volume, and ``task`` the worker that has it in hand; ``moved``: the batch
    goes to another volume, so this transfer ends without a record.
    """

    __slots__ = (
        "_helpers",
        "access",
        "adopted_bytes",
        "attempts",
        "entry",
        "index",
        "moved",
        "part",
        "queue",
        "sources",
        "staging",
        "task",
        "tries",
        "verified",
        "waits",
    )

    def __init__(
        self,
        entry: Entry,
        part: "PartPort",
        *,
        index: int = 0,
        queue: int,
        host: str,
        now_s: float,
        staging: StagedBatch | None = None,
    ) -> None:
        self.entry = entry
        self.part = part
        self.index = index
        self.queue = queue
        self.staging = staging
        self.task: asyncio.Task[None] | None = None
        self.moved = False
        self.adopted_bytes: int | None = None
        self.verified = "none"
        self.attempts: list[AttemptRecord] = []
        self.sources = EntrySources(host, entry.mirrors)
        self.access = RequestAccess(entry)
        self.tries = Tries(now_s)
        self.waits = Waits(now_s, now_s, now_s)
        self._helpers: Helpers | None = None

    @property
    def helpers(self) -> "Helpers":
        """Its helpers, made when first needed: most transfers never have one."""
        if self._helpers is None:
            from cfetch.engine.entry_helpers import Helpers

            self._helpers = Helpers()
        return self._helpers

    @property
    def has_helpers(self) -> bool:
        """Whether helpers bring ranges of it now."""
        return self._helpers is not None and bool(self._helpers.keys)

    @property
    def is_new(self) -> bool:
        """Whether the file has not been looked for yet."""
        return self.adopted_bytes is None

    @property
    def standing(self) -> Standing | None:
        """The file in place that the present source has to compare with its own; None for a mirror."""
        return self.access.standing if not self.sources.number else None

    @property
    def host(self) -> str:
        """The host that is asked now."""
        return self.sources.host

    @property
    def mitigations(self) -> int:
        """How many of its attempts were cancelled as stragglers."""
        return self.tries.mitigations + self.tries.below_min_rate

    @property
    def wanted_bytes(self) -> int:
        """The bytes that are still to come, as far as the size is known."""
        return max(0, (self.entry.size_bytes or 0) - self.part.position)

    def put_back(self, now_s: float, due_s: float) -> None:
        """Note that it waits for its next try, until ``due_s`` at least."""
        self.waits.put_s, self.waits.due_s = now_s, due_s

    def take_again(self, now_s: float) -> None:
        """Note that its wait is over. Time after ``due_s`` was the host's, and costs no retry budget."""
        self.waits.queued_s += now_s - self.waits.put_s
        self.tries.progress_s += max(0.0, now_s - self.waits.due_s)

    def best_source(self, hosts: Hosts, now_s: float, max_attempts: int) -> int | None:
        """Call ``EntrySources.best``."""
        if not self.entry.mirrors:
            return 0 if hosts.opens_s(self.sources.host, now_s) <= now_s else None
        stays = self.part.position > 0 and self.entry.digest is None
        tries_left = max_attempts - self.tries.errors
        return self.sources.best(hosts, now_s, self.wanted_bytes, stays=stays, tries_left=tries_left)

    def move(self, source: int) -> None:
        """Ask another source from now on.

        An ETag speaks for the one URL that stated it (RFC 9110 8.8.3), so bytes of two sources are joined
        only under the manifest's hash.
        """
        self.sources.move(source)
        self.access.move(source)
        if self.entry.digest is None:
            self.part.restart()
        self.part.change_source(mirror=source > 0)

    def leave_source(self) -> None:
        """Leave the present source for good; the next source begins with all its tries."""
        self.sources.leave()
        self.tries.errors = 0

    def note_progress(self, now_s: float) -> None:
        """Note that bytes have come; those that later attempts can continue count."""
        if self.may_resume():
            self.tries.note_progress(self.part.position, now_s)

    def has_joined(self) -> bool:
        """Whether the last try went on with bytes that were there before it."""
        return bool(self.attempts) and self.attempts[-1].from_byte > 0

    def count(self, error: SourceError) -> None:
        """Count a failed try. Stragglers and expired links have limits of their own.

        A 429 is about the host and not about this entry, so only the retry budget ends it: while a host
        throttles, one entry after the other would use up its tries as the probe. A file that is not ready yet
        is waited for as long.
        """
        is_throttled = isinstance(error, Throttled) and error.http_status not in (None, UNAVAILABLE)
        self.tries.errors += not (is_throttled or isinstance(error, Straggling | Expired | NotReady))
        has_digest = self.entry.digest is not None
        self.sources.count(error, has_joined=self.has_joined(), has_digest=has_digest)

    def save_own_try(self, max_attempts: int) -> None:
        """Give the own URL a try if mirrors, which may hold another version, have used up all tries."""
        if self.tries.errors >= max_attempts and self.sources.number and self.sources.leave_mirrors():
            self.tries.errors = max_attempts - 1

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
        """The record of the entry. ``kept_bytes`` stay on the volume."""
        entry, gave_up = self.entry, self.tries.gave_up
        elapsed_s = now_s - self.waits.start_s
        fetched_bytes = max(0, kept_bytes - (self.adopted_bytes or 0))
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
            queued_s=round_s(self.waits.queued_s),
            start_s=round_s(self.waits.start_s),
            end_s=round_s(now_s),
            rate_bps=round_rate(fetched_bytes / max(elapsed_s, 0.001)),
            stragglers=self.mitigations,
            attempts=self.attempts,
            error_kind=None if error is None else error.kind,
            error=None if error is None else f"{error}; {gave_up}" if gave_up else str(error),
            batch=None if self.staging is None else self.staging.shown,
            url=str(entry.url) if status == "failed" else UNSET,
            line=entry.line if status == "failed" else UNSET,
            columns=dict(entry.kept) if entry.kept else UNSET,
        )
