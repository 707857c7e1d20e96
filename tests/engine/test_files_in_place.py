"""What stands in place is found before anything is begun."""

from cfetch.base.events import EntriesFinished, EntryFinished, Event
from cfetch.engine.entry_records import EntryRecords, make_skipped_record
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = b"x" * 100


def put_in_place(names):
    """A function that puts their files into a destination."""

    def put(root):
        for name in names:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(BODY)

    return put


def test_only_what_is_missing_is_begun_and_only_then(tmp_path):
    """The others are skipped in the manifest's order, with a whole record each."""
    names = [f"d{number % 3}/{number}" for number in range(1200)]
    missing = {names[5], names[1100]}
    outcome = drive(
        tmp_path,
        dict.fromkeys(names, Reply(BODY)),
        before=put_in_place([name for name in names if name not in missing]),
    )
    assert {record.path for record in outcome.all_records if record.status == "done"} == missing
    skipped = [record for record in outcome.all_records if record.status == "skipped"]
    assert [record.path for record in skipped] == [name for name in names if name not in missing]
    ended = [event.record.status for event in outcome.events if isinstance(event, EntryFinished)]
    assert ended == ["skipped"] * len(skipped) + ["done"] * 2
    begun_s = [record.start_s for record in outcome.all_records if record.status == "done"]
    assert min(begun_s) >= max(record.end_s for record in skipped)
    record = skipped[7]
    assert (record.bytes, record.verified, record.host, record.attempts) == (100, "size", "origin.test", [])
    assert record.volume == str(outcome.root)


def test_what_one_look_does_not_tell_is_left_to_the_workers(tmp_path):
    """A hash is computed, and what stands in the way fails its entry alone."""

    def put(root):
        put_in_place(["hashed", "wrong"])(root)
        (root / "blocked").mkdir()

    entries = [
        entry_of(0, "hashed", BODY, digest=True),
        entry_of(1, "wrong", BODY, size=99),
        entry_of(2, "blocked", BODY),
    ]
    scripts = {"hashed": Reply(BODY), "wrong": Reply(BODY[:99]), "blocked": Reply(BODY)}
    outcome = drive(tmp_path, scripts, entries, before=put)
    assert outcome.statuses == ["failed", "skipped", "done"]
    assert outcome.records["hashed"].verified == "sha256"


def test_files_in_place_are_recorded_in_groups():
    """One event for all: per file it would cost more than the look at the file. Kept columns stay."""
    events: list[Event] = []
    entry_records = EntryRecords.__new__(EntryRecords)
    entry_records._instant, entry_records._emit = "i", events.append
    entries = [entry_of(0, "a", BODY, kept=(("k", "v"),)), entry_of(1, "b", BODY, size=False)]
    entry_records.skip([(entries[0], "h", "size"), (entries[1], "g", "none")], volume="v", now_s=1.0)
    [event] = events
    assert isinstance(event, EntriesFinished)
    assert list(event.block.read_records()) == [
        make_skipped_record(entries[0], "i", host="h", verified="size", volume="v", now_s=1.0),
        make_skipped_record(entries[1], "i", host="g", verified="none", volume="v", now_s=1.0),
    ]
    assert event.ids == [0, 1]


def test_a_stop_ends_the_search(tmp_path):
    """At the next block: what was not looked at has no record, and a later run looks at it."""
    names = [str(number) for number in range(1200)]
    outcome = drive(
        tmp_path, dict.fromkeys(names, Reply(BODY)), before=put_in_place(names), stop_on=EntryFinished
    )
    assert 0 < len(outcome.all_records) < len(names)
    assert set(outcome.statuses) == {"skipped"}
