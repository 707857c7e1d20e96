"""One entry in a worker's hands: its part, its tries, in the end its record. Mutable, owned by one task."""

from cfetch.errors import CfetchError, Corrupt, Expired, SourceError, Straggling
from cfetch.events import AttemptRecord, FileRecord, Status
from cfetch.manifest.entry import Entry
from cfetch.secret import SecretText, SecretUrl
from cfetch.transfer.part import Part
from cfetch.transfer.refresh import Link

__all__ = ["MAX_MITIGATIONS", "Job"]

MIN_PROGRESS_BYTES = 64 << 10  # a try that brings less is no progress
MAX_MITIGATIONS = (
    2  # a third slow connection in a row is the file's nature; the bar has risen four-fold by then
)


class Job:
    """``errors`` counts failed tries, ``corrupt`` those that brought wrong bytes.

    ``mitigations`` counts cancelled stragglers, which cost no try.
    """

    __slots__ = (
        "attempts",
        "best_bytes",
        "corrupt",
        "entry",
        "errors",
        "expires_at",
        "fresh",
        "gave_up",
        "headers",
        "host",
        "mitigations",
        "part",
        "progress_s",
        "queued_s",
        "refreshes",
        "start_s",
        "url",
        "verified",
    )

    def __init__(self, entry: Entry, part: Part, *, host: str, now_s: float, queued_s: float) -> None:
        self.entry = entry
        self.part = part
        self.host = host
        self.queued_s = queued_s
        self.start_s = self.progress_s = now_s
        self.best_bytes = 0
        self.url: SecretUrl = entry.url
        self.headers: tuple[tuple[str, SecretText], ...] = entry.headers
        self.expires_at = entry.expires_at
        self.errors = 0
        self.corrupt = 0
        self.mitigations = 0
        self.refreshes = 0
        self.fresh = False
        self.verified = "none"
        self.gave_up = ""  # the limit that ended the tries, in words
        self.attempts: list[AttemptRecord] = []

    def take(self, link: Link, *, counts: bool) -> None:
        """Use a fresh link from now on; ``counts`` if the server had refused the old one."""
        self.url, self.expires_at = link.url, link.expires_at
        self.headers = link.headers or self.headers
        self.refreshes += counts

    def note_progress(self, now_s: float) -> None:
        """Bytes that will be built upon, and more of them than ever: the limits begin anew."""
        if self.may_resume() and self.part.position >= self.best_bytes + MIN_PROGRESS_BYTES:
            self.best_bytes, self.progress_s, self.errors = self.part.position, now_s, 0

    def count(self, error: SourceError) -> None:
        """A try has failed. Stragglers and links that are over have limits of their own."""
        self.errors += not isinstance(error, Straggling | Expired)
        self.corrupt += isinstance(error, Corrupt)

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
            rate_bps=round(kept_bytes / max(elapsed_s, 0.001), 1),
            stragglers=self.mitigations,
            attempts=self.attempts,
            error_kind=None if error is None else error.kind,
            error=None if error is None else f"{error}; {self.gave_up}" if self.gave_up else str(error),
        )
