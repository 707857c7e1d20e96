"""Receipts on a real disk: the first of two wins, what is torn is passed over, each entry ends once."""

import os
import zlib

import msgspec
import pytest

from cfetch.base.errors import LocalFault
from cfetch.base.events import EntriesFinished, EntryFinished, Event, RetryScheduled, tell_each
from cfetch.base.records import FileRecord
from cfetch.show.digest import make_digest
from cfetch.storage.directory import Directory
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.receipts import (
    ReceiptReader,
    TaskReport,
    encode_report,
    is_in_place,
    leave_receipt,
    read_result,
    share_receipt_name,
)


def ended(number, status="done"):
    return FileRecord(
        instant="i",
        id=number,
        offset=0,
        path=f"f{number}",
        host="h",
        volume="/v",
        size_bytes=3,
        bytes=3,
        status=status,
        verified="size",
        attempts=[],
        stragglers=0,
        queued_s=0.0,
        start_s=0.0,
        end_s=1.0,
        rate_bps=3.0,
    )


def report(*records, number=0, task=1, share=0, events=(), volume=""):
    """As a task leaves it."""
    head = TaskReport(
        instant="i",
        epoch=1,
        share=share,
        task=task,
        number=number,
        volume=volume,
        events=list(events),
        digest=make_digest([record for record in records if record.is_in_place], slots=4),
    )
    return encode_report(head, records)


def part_name(number, *, task=1, share=0):
    return f"part-1-{share:06d}-{task}-{number}"


class Scene:
    """A directory of receipts, and a driver that has read some of them."""

    def __init__(self, directory):
        self._directory = directory
        self._reader = ReceiptReader(directory, "i")
        self.account = Account()
        self.events = []

    def leave(self, name, *reports):
        return leave_receipt(self._directory, name, *reports)

    def read(self):
        """What new receipts tell, and the entries among it, as a listener of each one is told them."""
        told: list[Event] = []
        tell = tell_each(told.append)
        self.events = []
        for receipt in self._reader.read_new(everything):
            for event in self.account.take_in(receipt):
                self.events.append(event)
                tell(event)
        return list_ends(told)


def list_ends(events):
    return [(event.record.id, event.record.status) for event in events if isinstance(event, EntryFinished)]


@pytest.fixture
def scene(tmp_path):
    """A directory without receipts."""
    return Scene(tmp_path)


SHARE = share_receipt_name(1, 0)


def everything(_name):
    return True


def test_the_first_of_two_copies_wins(scene, tmp_path):
    """By a link, which never replaces; nothing else stays behind, and nobody else may read it."""
    assert scene.leave(SHARE, report(ended(1)))
    assert not scene.leave(SHARE, report(ended(2), task=2))
    assert scene.read() == [(1, "done")]
    (path,) = tmp_path.iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == ("share-1-000000", 0o600)


def test_files_in_place_are_told_together_and_their_lines_are_those_of_the_metrics(scene, tmp_path):
    """The driver adds up the sums of the task and copies the lines, without reading them."""
    records = [ended(1), ended(2, "skipped"), ended(3, "failed")]
    scene.leave(SHARE, report(*records))
    (receipt,) = ReceiptReader(tmp_path, "i").read_new(everything)
    assert scene.read() == [(1, "done"), (2, "skipped"), (3, "failed")]
    together, alone = scene.events
    assert (type(together), type(alone)) == (EntriesFinished, EntryFinished)
    assert (list(together.ids), together.digest.sums.done, together.digest.sums.skipped) == ([1, 2], 1, 1)
    lines = (tmp_path / SHARE).read_bytes().splitlines()[1:]
    assert [msgspec.json.decode(line, type=FileRecord) for line in lines] == records[:2]
    assert receipt.is_over


def test_each_receipt_is_read_once_and_parts_come_before_their_share(scene, tmp_path):
    """So that what a share's receipt relies on is known."""
    scene.leave(part_name(0), report(ended(1)))
    scene.leave(SHARE, report(ended(2)))
    receipts = ReceiptReader(tmp_path, "i")
    assert [one.is_over for one in receipts.read_new(everything)] == [False, True]
    assert list(receipts.read_new(everything)) == []


@pytest.mark.parametrize("data", [b"", b'{"schema":', report(ended(1))[:-1], report(ended(1)) + b"{}"])
def test_a_torn_part_is_passed_over_and_a_torn_share_is_named(scene, tmp_path, data):
    """A part is written without waiting for the disk; a share's receipt must not be."""
    (tmp_path / part_name(0)).write_bytes(data)
    assert scene.read() == []
    (tmp_path / SHARE).write_bytes(data)
    assert read_result(tmp_path / SHARE) is None
    with pytest.raises(LocalFault, match="share-1-000000 is damaged"):
        scene.read()


@pytest.mark.parametrize("needs_all", [True, False])
def test_a_directory_in_place_of_a_receipt_is_named_with_the_remedy(tmp_path, needs_all):
    """No receipt could be left under that name: the user has to remove what is there."""
    (tmp_path / SHARE).mkdir()
    named = f"{tmp_path / SHARE} is a directory; remove it and run the same command again"
    with pytest.raises(LocalFault, match=named):
        read_result(tmp_path / SHARE)
    with pytest.raises(LocalFault, match=named):
        list(ReceiptReader(tmp_path, "i").read_new(everything, needs_all=needs_all))


def flipped(data, place):
    """With one bit that a disk has turned."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def take_all_in(directory):
    account = Account()
    for receipt in ReceiptReader(directory, "i").read_new(everything):
        list(account.take_in(receipt))


def test_a_bit_that_has_turned_is_noticed_wherever_it_is(tmp_path):
    """Else another file would count as in place, or the sums or the lines of the metrics would be wrong."""
    data = report(ended(12), ended(13, "failed"))
    for place in range(len(data)):
        (tmp_path / SHARE).write_bytes(flipped(data, place))
        assert read_result(tmp_path / SHARE) is None
        with pytest.raises((LocalFault, msgspec.DecodeError)):
            take_all_in(tmp_path)


def test_of_a_damaged_report_nothing_is_taken_in(scene, tmp_path):
    """The driver passes over a part whose lines a power cut has torn, and its share's receipt repeats it."""
    first = report(ended(1), events=[RETRY])
    (tmp_path / part_name(0)).write_bytes(first[:-9] + bytes(9))
    with pytest.raises(msgspec.DecodeError):
        scene.read()
    scene.leave(SHARE, first)
    assert scene.read() == [(1, "done")]
    assert scene.events[0] == RETRY


@pytest.mark.parametrize("facts", [{"instant": "j"}, {"epoch": 2}, {"share": 1}])
def test_a_receipt_of_another_plan_or_share_does_not_count(tmp_path, facts):
    """Somebody has put it there: its numbers are those of other files."""
    head = TaskReport(**{"instant": "i", "epoch": 1, "share": 0, "task": 1} | facts)
    leave_receipt(tmp_path, SHARE, encode_report(head, [ended(1)]))
    leave_receipt(tmp_path, part_name(0), encode_report(head, [ended(1)]))
    assert list(ReceiptReader(tmp_path, "i").read_new(everything, needs_all=False)) == []
    with pytest.raises(LocalFault, match="share-1-000000 is damaged"):
        list(ReceiptReader(tmp_path, "i").read_new(everything))


@pytest.mark.parametrize(
    ("facts", "text"),
    [({}, b"cfetch.receipt/3"), ({"ids": [1 << 32]}, None), ({"ids": [-1]}, None)],
)
def test_a_receipt_of_a_later_version_or_with_impossible_numbers_does_not_count(tmp_path, facts, text):
    """The driver has a bit for each number: one that is far too large would take all memory."""
    head = msgspec.json.encode(
        msgspec.structs.replace(TaskReport(instant="i", epoch=1, share=0, task=1), **facts)
    )
    head = head if text is None else head.replace(b"cfetch.receipt/2", text)
    (tmp_path / SHARE).write_bytes(b"%08x %b\n" % (zlib.crc32(head), head))
    assert list(ReceiptReader(tmp_path, "i").read_new(everything, needs_all=False)) == []
    assert read_result(tmp_path / SHARE) is None


def test_names_of_other_files_are_no_numbers(tmp_path):
    """A digit of another alphabet is passed over with its file."""
    (tmp_path / "part-1-000000-1-²").touch()
    assert list(ReceiptReader(tmp_path, "i").read_new(everything)) == []


def test_a_receipt_of_another_version_counts_as_not_there(tmp_path):
    """An earlier run of the plan has left it: the tasks look at its files themselves."""
    old = (
        b'{"schema":"cfetch.receipt/1","instant":"i","epoch":1,"share":0,"task":1,"attempt":0,"number":null,'
    )
    (tmp_path / SHARE).write_bytes(old + b'"first":0,"events":[],"fault":null,"executor":""}')
    assert list(ReceiptReader(tmp_path, "i").read_new(everything, needs_all=False)) == []
    assert read_result(tmp_path / SHARE) is None


def test_a_part_that_goes_while_it_is_taken_in_is_told_whole(scene, tmp_path):
    """Its task, perhaps on another machine, removes it once the share is over."""
    scene.leave(part_name(0), report(*map(ended, range(9))))
    told = []
    for receipt in ReceiptReader(tmp_path, "i").read_new(everything):
        with (tmp_path / part_name(0)).open("r+b") as file:
            file.truncate(0)
        (tmp_path / part_name(0)).unlink()
        told += receipt.read_records()
    assert [record.id for record in told] == list(range(9))


def test_a_result_has_all_records_of_a_share(scene, tmp_path):
    """In place or not, of all reports."""
    assert read_result(tmp_path / SHARE) is None
    scene.leave(SHARE, report(ended(1), ended(2, "failed")), report(ended(3), number=1))
    result = read_result(tmp_path / SHARE)
    assert result is not None
    assert sorted(record.id for record in result.records) == [1, 2, 3]


def test_a_directory_that_has_gone_is_a_local_fault(tmp_path):
    """Not a traceback, for the task and for the driver."""
    with pytest.raises(LocalFault, match="cannot leave a receipt"):
        leave_receipt(tmp_path / "gone", SHARE, report())
    with pytest.raises(LocalFault, match="cannot use"):
        list(ReceiptReader(tmp_path / "gone", "i").read_new(everything))


def test_an_entry_that_two_copies_have_brought_is_told_once(scene):
    """Done by one, found standing by the other, which has brought a file of its own beside it."""
    scene.leave(part_name(0), report(ended(1)))
    scene.leave(SHARE, report(ended(1, "skipped"), ended(2), task=2))
    assert scene.read() == [(1, "done"), (2, "done")]
    assert [number in scene.account for number in (1, 2, 3)] == [True, True, False]


def test_what_has_come_to_each_volume_is_counted_once(scene):
    """By the bytes of the files, whatever the list says of sizes; what was there before is not of it."""
    scene.leave(part_name(0), report(ended(1), ended(2), volume="/v"))
    scene.leave(SHARE, report(ended(1), ended(3), ended(4, "skipped"), task=2, volume="/w"))
    scene.read()
    assert scene.account.done_bytes == {"/v": 6, "/w": 3}


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_what_one_copy_could_not_bring_another_may(scene, status):
    """It is held back until the share is over."""
    scene.leave(part_name(0), report(ended(1, status)))
    assert scene.read() == []
    scene.leave(part_name(0, task=2), report(ended(1), task=2))
    assert scene.read() == [(1, "done")]
    scene.leave(SHARE, report(task=2, number=1))
    assert scene.read() == []
    assert list(scene.account.close()) == []


def test_what_nobody_could_bring_is_told_at_the_end_of_its_share(scene):
    """Or, where the share has none, of the run; once."""
    first = report(ended(1, "failed"))
    scene.leave(part_name(0), first)
    scene.leave(SHARE, first, report(number=1))
    assert scene.read() == [(1, "failed")]
    scene.leave(part_name(0, share=1, task=2), report(ended(2, "cancelled"), share=1, task=2))
    assert scene.read() == []
    assert list_ends(scene.account.close()) == [(2, "cancelled")]
    assert list(scene.account.close()) == []


RETRY = RetryScheduled(t_s=0.0, id=1, path="f", n=1, delay_s=1.0, error_kind="transient", error="reset")


def test_a_share_tells_what_its_parts_have_not(scene):
    """Its receipt has all reports of its task, and no retry is told twice."""
    first = report(events=[RETRY])
    scene.leave(part_name(0), first)
    assert scene.read() == []
    assert scene.events == [RETRY]
    scene.leave(SHARE, first, report(ended(1), number=1, events=[RETRY]))
    assert scene.read() == [(1, "done")]
    assert scene.events[0] == RETRY
    assert len(scene.events) == 2
    scene.leave(part_name(0, task=2), report(task=2, events=[RETRY]))
    assert scene.read() == []
    assert scene.events == [RETRY]


def test_an_account_is_a_bit_an_entry():
    """The driver has one of all files of a run."""
    account = Account()
    for number in (10_000_000, 3, 3):
        account.add(number)
    there = [number for number in (2, 3, 4, 11, 9_999_999, 10_000_000, 10_000_001) if number in account]
    assert there == [3, 10_000_000]
    assert len(account) == 2
    assert len(account._ended) < 10_000_000 / 6


def test_what_is_not_reported_yet_is_counted(scene):
    """By what tasks say that they have in place, and by their reports; a share repeats its parts."""
    brought = {1: (4, 250), 2: (1, 60)}
    assert scene.account.count_unreported(brought) == (5, 310)
    first = report(ended(1), ended(2, "skipped"), ended(3, "failed"))
    scene.leave(part_name(0), first)
    scene.read()
    done_bytes = ended(1).bytes
    assert scene.account.count_unreported({1: (4, done_bytes + 7)}) == (2, 7)
    scene.leave(SHARE, first, report(ended(4), ended(5), number=1))
    scene.read()
    assert scene.account.count_unreported({1: (4, done_bytes * 3)}) == (0, 0)
    assert scene.account.count_unreported({1: (3, 0)}) == (0, 0)  # an older beat


def test_many_parts_of_a_task_in_one_look(scene):
    """A driver that is behind finds several at once, ten and more of them: no file is lost."""
    for number in range(12):
        scene.leave(part_name(number), report(ended(2 * number), ended(2 * number + 1), number=number))
    assert scene.read() == [(number, "done") for number in range(24)]


def test_a_part_that_was_torn_is_told_by_its_share(scene):
    """Later parts do not speak for it."""
    reports = [report(ended(2 * number), ended(2 * number + 1), number=number) for number in range(3)]
    scene.leave(part_name(0), reports[0])
    scene.leave(part_name(2), reports[2])
    assert scene.read() == [(one, "done") for one in (0, 1, 4, 5)]
    scene.leave(SHARE, *reports)
    assert scene.read() == [(2, "done"), (3, "done")]


def test_behind_a_part_that_was_torn_no_event_is_told_twice(scene):
    """The receipt of the share repeats the later parts, too."""
    first, second = report(ended(1), events=[RETRY]), report(ended(2), number=1, events=[RETRY])
    scene.leave(part_name(1), second)
    assert scene.read() == [(2, "done")]
    scene.leave(SHARE, first, second)
    assert scene.read() == [(1, "done")]
    assert scene.events.count(RETRY) == 1


def test_other_events_are_told_as_they_are(scene):
    """Two retries are two."""
    scene.leave(part_name(0), report(events=[RETRY, RETRY]))
    scene.read()
    assert scene.events == [RETRY, RETRY]


@pytest.mark.parametrize(
    ("status", "facts", "is_there"),
    [
        ("done", {}, True),
        ("skipped", {}, True),
        ("skipped", {"size_bytes": None}, True),
        ("skipped", {"size_bytes": 4}, False),
        ("done", {"bytes": 4}, False),
        ("failed", {}, False),
        ("cancelled", {}, False),
        ("done", {"path": "deep/gone"}, False),
        ("done", {"path": "deep"}, False),
        ("done", {"path": "deep/file/below"}, False),
    ],
)
def test_a_file_is_in_place_with_the_size_that_it_had(tmp_path, status, facts, is_there):
    """What a record says was brought or found; nothing else counts."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_bytes(b"abc")
    record = msgspec.structs.replace(ended(1, status), **{"path": "deep/file"} | facts)
    volume = Directory(tmp_path)
    assert is_in_place(volume, record) is is_there
    volume.close()


def test_a_file_that_has_changed_since_its_receipt_does_not_count(tmp_path):
    """Its bytes or its permissions, of which one time tells; a receipt that has gone vouches for none."""
    (tmp_path / "file").write_bytes(b"abc")
    record = msgspec.structs.replace(ended(1), path="file", bytes=3)
    assert leave_receipt(tmp_path, SHARE, report(ended(1)))
    reader, volume = ReceiptReader(tmp_path, "i"), Directory(tmp_path)
    (left,) = reader.read_new(SHARE.__eq__)
    written_ns = reader.find_written_ns(left)
    assert is_in_place(volume, record, written_ns=written_ns)
    while (tmp_path / "file").stat().st_ctime_ns <= written_ns:
        (tmp_path / "file").write_bytes(b"xyz")
    assert is_in_place(volume, record)
    assert not is_in_place(volume, record, written_ns=written_ns)
    (tmp_path / left.name).unlink()
    assert reader.find_written_ns(left) == 0
    volume.close()


@pytest.mark.parametrize("name", ["deep", "deep/file"])
def test_a_file_behind_a_symlink_is_not_in_place(tmp_path, name):
    """Neither the file nor its directory may be one, wherever it leads."""
    (tmp_path / "to/deep").mkdir(parents=True)
    (tmp_path / "to/deep/file").write_bytes(b"abc")
    os.rename(tmp_path / "to" / name, tmp_path / "elsewhere")
    (tmp_path / "to" / name).symlink_to(tmp_path / "elsewhere")
    assert (tmp_path / "to/deep/file").read_bytes() == b"abc"
    record = msgspec.structs.replace(ended(1), path="deep/file")
    volume = Directory(tmp_path / "to")
    assert not is_in_place(volume, record)
    volume.close()
