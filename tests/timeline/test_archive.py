"""The archive: completed instants leave the timeline, none is lost, and listing stays fast."""

import msgspec
import pytest

from cfetch.base.errors import LocalFault
from cfetch.timeline import archive as room
from cfetch.timeline.archive import archive, read_archive
from cfetch.timeline.clean import clean
from cfetch.timeline.states import Action
from tests.timeline.real import nobody, start

DAY_S = 86400.0


def completed(processes, number):
    """So many plans, a day apart."""
    table = processes.table("x")
    instants = []
    for one in range(number):
        instant = processes.schedule(table, fingerprint=str(one))
        start(table, instant, on_lost=nobody).commit(files=one, size_bytes=1)
        instants.append(instant)
        processes.time_s += DAY_S
    return instants


def test_old_instants_move_with_their_records(processes, monkeypatch):
    """Exactly ``keep`` is old enough; files hold a bounded number; the records say who completed them."""
    monkeypatch.setattr(room, "FILE_INSTANTS", 2)
    instants = completed(processes, 6)
    pending = processes.schedule(processes.table("y"), fingerprint="pending")
    table = processes.table("z")
    told = clean(table, delay_s=0, keep_s=2 * DAY_S)
    assert [one.kept for one in told] == [False] * 5 + [True] * 2
    assert [entry.instant for entry in table.store.entries()] == [instants[5], pending]
    found = list(read_archive(table))
    assert [entry.instant for entry, _ in found] == instants[:5]
    assert [record.completion and record.completion.files for _, record in found] == [0, 1, 2, 3, 4]
    assert len(list((processes.state / "timeline/archive").iterdir())) == 3


def test_who_is_killed_between_writing_and_removing_loses_nothing(processes, monkeypatch):
    """The instants stand twice until the next time, and are read once."""
    instants = completed(processes, 3)
    table = processes.table("z")

    def die(entries):
        raise KeyboardInterrupt

    monkeypatch.setattr(table.store, "forget", die)
    with pytest.raises(KeyboardInterrupt):
        archive(table, 0.0)
    monkeypatch.undo()
    assert len(table.store.entries()) == 3
    archive(table, 0.0)
    assert table.store.entries() == []
    assert sorted(entry.instant for entry, _ in read_archive(table)) == instants


def test_two_who_archive_at_once_lose_nothing(processes, monkeypatch):
    """The second is killed while it removes what the first reads: same first and last, but two files."""
    instants = completed(processes, 4)
    a, b = processes.table("a"), processes.table("b")
    read, forget = a.store.read_plan, b.store.forget

    def die_before_the_last(entries):
        forget(entries[:-1])
        raise KeyboardInterrupt

    def meanwhile(entry):
        if entry.instant == instants[1]:
            with pytest.raises(KeyboardInterrupt):
                archive(b, 0.0)
        return read(entry)

    monkeypatch.setattr(b.store, "forget", die_before_the_last)
    monkeypatch.setattr(a.store, "read_plan", meanwhile)
    assert [entry.instant for entry in archive(a, 0.0)] == [instants[0], instants[3]]
    assert a.store.entries() == []
    assert sorted(entry.instant for entry, _ in read_archive(a)) == instants


def test_what_cannot_be_read_stays(processes):
    """For somebody to look at it."""
    (instant,) = completed(processes, 1)
    (processes.state / f"timeline/{instant}.download.completed").write_bytes(b"{torn")
    table = processes.table("z")
    assert archive(table, 0.0) == []
    assert [entry.instant for entry in table.store.entries()] == [instant]


def test_listing_opens_no_file(processes):
    """500 instants, none of which could be read: the list is complete, in order, and in one scan."""
    table = processes.table("x")
    timeline = processes.state / "timeline"
    names = [
        f"2027{i // 100 % 12 + 1:02}15T08{i // 60 % 60:02}{i % 60:02}{i % 1000:03}Z-{i:04x}"
        for i in range(500)
    ]
    for name in names:
        (timeline / f"{name}.download.completed").touch()
    entries = table.store.entries()
    assert [entry.instant for entry in entries] == sorted(names)
    assert {entry.action for entry in entries} == {Action.DOWNLOAD}


def test_records_hold_no_more_than_they_say(processes):
    """The timeline can be read by others: only the named keys, no manifest's content."""
    (instant,) = completed(processes, 1)
    text = (processes.state / f"timeline/{instant}.download.completed").read_bytes()
    keys = {"schema", "kind", "fingerprint", "manifest", "destinations", "files", "bytes", "completion"}
    assert msgspec.json.decode(text).keys() == keys


def test_a_damaged_archive_is_named(processes):
    """Not passed over, and no foreign error."""
    completed(processes, 1)
    table = processes.table("z")
    archive(table, 0.0)
    (file,) = (processes.state / "timeline/archive").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(LocalFault, match=f"{file.name} is damaged"):
        list(read_archive(table))
