"""Moves completed instants from the timeline to archive files, so that listing it stays fast for years.

An archive file, ``timeline/archive/<first>_<last>_<tail>.jsonl``, holds up to ``FILE_INSTANTS`` instants, one
a line. It is written whole and flushed, under a name that nobody else uses, before its instants leave.
A process that is killed in between, or two that archive side by side, leave an instant twice; readers count
it once. So does an owner that stands still inside its commit for longer than its lock is respected.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress

import msgspec

from cfetch.base.errors import LocalFault, NewerRecord
from cfetch.base.records import NOT_DECODED
from cfetch.timeline.records import PlanRecord, RollbackRecord
from cfetch.timeline.states import Action, InstantFile, State
from cfetch.timeline.store import RECORDS, TIMELINE
from cfetch.timeline.table import Table, on_this_machine

ARCHIVE = f"{TIMELINE}/archive"
FILE_INSTANTS = 1000  # some 0.5 MB: quickly read, and small enough to write in one piece


class _Line(msgspec.Struct):
    instant: str
    action: Action
    record: msgspec.Raw


def archive(table: Table, older_than_s: float, *, only: Collection[str] | None = None) -> list[InstantFile]:
    """Archive completed instants of at least this age; ``only``: no others than these. Returns those moved.

    Raises LocalFault.
    """
    done: list[InstantFile] = []
    with on_this_machine("cannot archive completed plans"):
        old = [
            entry
            for entry in table.store.entries()
            if entry.state is State.COMPLETED
            and table.age_s(entry) >= older_than_s
            and (only is None or entry.instant in only)
        ]
        if old:
            with table.lock.hold():
                pass  # who has just completed one of these has now added to its record, or never will
        for first in range(0, len(old), FILE_INSTANTS):
            done += _archive_file(table, old[first : first + FILE_INSTANTS])
        if done:
            table.files.flush_names(TIMELINE)
    return done


def _archive_file(table: Table, entries: list[InstantFile]) -> list[InstantFile]:
    lines: list[bytes] = []
    taken: list[InstantFile] = []
    with table.read_once():
        for entry in entries:
            with suppress(FileNotFoundError, NewerRecord):  # another cleaner was faster, or has to do it
                record = _record(table, entry)
                if record is not None:  # an unreadable instant stays where it is, for a person to look at
                    line = _Line(entry.instant, entry.action, msgspec.Raw(msgspec.json.encode(record)))
                    lines.append(msgspec.json.encode(line) + b"\n")
                    taken.append(entry)
    if not taken:
        return []
    name = f"{taken[0].instant}_{taken[-1].instant}_{table.node.owner.token}{table.node.tail()}"
    files = table.files
    files.make_directory(ARCHIVE)
    files.create(f"{ARCHIVE}/.{name}.tmp", b"".join(lines), flush=True)
    files.rename(f"{ARCHIVE}/.{name}.tmp", f"{ARCHIVE}/{name}.jsonl")
    files.flush_names(ARCHIVE)
    table.store.forget(taken)
    return taken


def _record(table: Table, entry: InstantFile) -> PlanRecord | RollbackRecord | None:
    if entry.action is Action.DOWNLOAD:
        return table.store.read_plan(entry)
    return table.store.read_rollback(entry)


def read_archive(table: Table) -> Iterator[tuple[InstantFile, PlanRecord | RollbackRecord]]:
    """Read the archive: each instant once, in the order of the files. Raises LocalFault."""
    seen: set[tuple[str, Action]] = set()
    with on_this_machine("cannot read the archive"):
        for name in sorted(table.files.names(ARCHIVE)):
            if not name.endswith(".jsonl"):
                continue
            try:
                for entry, record in _read(table.files.read(f"{ARCHIVE}/{name}")):
                    if (entry.instant, entry.action) not in seen:
                        seen.add((entry.instant, entry.action))
                        yield entry, record
            except NOT_DECODED:
                raise LocalFault(f"{ARCHIVE}/{name} is damaged; move it away, and look into it") from None


def _read(text: bytes) -> Iterator[tuple[InstantFile, PlanRecord | RollbackRecord]]:
    for row in text.splitlines():
        line = msgspec.json.decode(row, type=_Line)
        record: PlanRecord | RollbackRecord = msgspec.json.decode(line.record, type=RECORDS[line.action])
        yield InstantFile(line.instant, line.action, State.COMPLETED), record
