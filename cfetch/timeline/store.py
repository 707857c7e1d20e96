"""The instants on disk: one file each in ``timeline/``, listed by one scan, changed by one rename.

A file gets its name only when it is whole and flushed, and every change of a name is flushed before the
caller continues, so that the executor's next step may rely on it even after a power cut.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from cfetch.base.errors import NewerRecord
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.storage.lacking import LINKS, note_lack
from cfetch.timeline.files import TimelineFiles
from cfetch.timeline.records import PLAN_SCHEMA, ROLLBACK_SCHEMA, PlanRecord, RollbackRecord
from cfetch.timeline.states import (
    Action,
    InstantFile,
    Kind,
    State,
    Transition,
    after,
    is_instant,
    is_temporary,
    parse,
)

TIMELINE = "timeline"
RECORDS: dict[Action, type[PlanRecord] | type[RollbackRecord]] = {
    Action.DOWNLOAD: PlanRecord,
    Action.ROLLBACK: RollbackRecord,
}
SCHEMAS = {Action.DOWNLOAD: PLAN_SCHEMA, Action.ROLLBACK: ROLLBACK_SCHEMA}


class _Schema(msgspec.Struct):
    schema: str | None = None


class InstantStore:
    """Raises OSError. ``token`` makes the names of temporary files this process's own."""

    def __init__(self, files: TimelineFiles, token: str) -> None:
        self.files = files
        self._token = token
        files.make_directory(TIMELINE)

    def entries(self) -> list[InstantFile]:
        """All instants, oldest first; one scan, no file is opened.

        An instant that changes its state during the scan may be missing (readdir(3)): a caller without the
        lock calls ``entries_twice``.
        """
        by_key: dict[tuple[str, Action], InstantFile] = {}
        for name in self.files.names(TIMELINE):
            entry = parse(name)
            if entry is not None:
                key = entry.instant, entry.action
                other = by_key.get(key)
                if other is None or _rank(other) < _rank(entry):
                    by_key[key] = entry
        return sorted(by_key.values())

    def entries_twice(self) -> list[InstantFile]:
        """All instants, oldest first, by two scans: what the first one misses is there for the second."""
        by_key = {entry[:2]: entry for entry in (*self.entries(), *self.entries())}
        return sorted(by_key.values())

    def unknown_instants(self) -> set[str]:
        """The instants that have a file whose state this version does not know: a later version's."""
        instants = {name.partition(".")[0] for name in self.files.names(TIMELINE) if parse(name) is None}
        return set(filter(is_instant, instants))

    def entry(self, instant: str, action: Action = Action.DOWNLOAD) -> InstantFile | None:
        """One instant in its present state; None if there is none."""
        return next((entry for entry in self.entries() if entry[:2] == (instant, action)), None)

    def read_plan(self, entry: InstantFile) -> PlanRecord | None:
        """A download's record; None if unreadable.

        Raises:
            FileNotFoundError: its state has changed.
            NewerRecord: its schema is of a newer version, whose meaning nobody knows here.
        """
        record = self._read(entry)
        return record if isinstance(record, PlanRecord) else None

    def read_rollback(self, entry: InstantFile) -> RollbackRecord | None:
        """The same as ``read_plan`` for a rollback's record."""
        record = self._read(entry)
        return record if isinstance(record, RollbackRecord) else None

    def put(self, entry: InstantFile, record: PlanRecord | RollbackRecord) -> None:
        """Add an instant. Raises FileExistsError."""
        temporary = self._write(entry.instant, record)
        try:
            try:
                self.files.link(temporary, _path(entry))
            except OSError as error:
                note_lack(LINKS, error)
                if self.entry(entry.instant, entry.action) is not None:  # the table lock is held
                    raise FileExistsError(entry.name) from None
                self.files.rename(temporary, _path(entry))
        finally:
            with suppress(FileNotFoundError):
                self.files.unlink(temporary)
        self.files.flush_names(TIMELINE)
        self.files.flush_names(".")  # the timeline itself may be new

    def move(self, entry: InstantFile, event: Transition, kind: Kind = Kind.IMMUTABLE) -> InstantFile:
        """Apply ``event``. Raises FileNotFoundError if another event has happened before."""
        moved = after(entry, event, kind)
        if moved.state is State.REMOVED:
            self.files.unlink(_path(entry))
        else:
            self.files.rename(_path(entry), _path(moved))
        self.files.flush_names(TIMELINE)
        return moved

    def enrich(self, entry: InstantFile, record: PlanRecord | RollbackRecord) -> None:
        """Replace the record of an instant that the caller has just completed."""
        self.files.rename(self._write(entry.instant, record), _path(entry))
        self.files.flush_names(TIMELINE)

    def forget(self, entries: Sequence[InstantFile]) -> None:
        """Take completed instants, which are in the archive, off the timeline."""
        self.files.unlink_all([_path(entry) for entry in entries])

    def debris(self) -> list[str]:
        """Temporary files that crashes have left, and those that are being written now."""
        return [f"{TIMELINE}/{name}" for name in self.files.names(TIMELINE) if is_temporary(name)]

    def _read(self, entry: InstantFile) -> PlanRecord | RollbackRecord | None:
        data = self.files.read(_path(entry))
        known = SCHEMAS[entry.action]
        try:
            schema = msgspec.json.decode(data, type=_Schema).schema
            if schema not in (known, None):
                raise NewerRecord(
                    f"a newer version of cfetch has written timeline/{entry.name} ({printable(schema)}); use "
                    "that version here"
                )
            return msgspec.json.decode(data, type=RECORDS[entry.action])
        except NOT_DECODED:
            return None

    def _write(self, instant: str, record: PlanRecord | RollbackRecord) -> str:
        temporary = f"{TIMELINE}/.{instant}.{self._token}.tmp"
        with suppress(FileNotFoundError):
            self.files.unlink(temporary)
        self.files.create(temporary, msgspec.json.encode(record), flush=True)
        return temporary


def _path(entry: InstantFile) -> str:
    return f"{TIMELINE}/{entry.name}"


def _rank(entry: InstantFile) -> tuple[bool, int]:
    """Rank states: of two files of one instant, left by a broken file system, the later state counts."""
    return entry.state is State.COMPLETED, entry.epoch
