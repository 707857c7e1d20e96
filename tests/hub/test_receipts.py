"""Receipts on a real disk: the first of two wins, what is torn is passed over, each entry ends once."""

import os

import msgspec
import pytest

from cfetch.errors import LocalFault
from cfetch.events import EntryFinished, RetryScheduled
from cfetch.hub.receipts import Account, Receipt, ReceiptReader, is_in_place, leave_receipt
from cfetch.records import FileRecord
from cfetch.storage.directory import Directory


def ended(number, status="done"):
    record = FileRecord(
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
    return EntryFinished(t_s=1.0, record=record)


def receipt(*events, task=1, number=None, share=0, fault=None):
    return Receipt(
        instant="i",
        epoch=1,
        share=share,
        task=task,
        attempt=0,
        number=number,
        events=list(events),
        fault=fault,
    )


def told(account, *receipts):
    news = [event for one in receipts for event in account.take_in(one)]
    return [(event.record.id, event.record.status) for event in news if isinstance(event, EntryFinished)]


def everything(_name):
    return True


def test_the_first_of_two_copies_wins(tmp_path):
    """By a link, which never replaces; nothing else stays behind, and nobody else may read it."""
    assert leave_receipt(tmp_path, receipt(ended(1)))
    assert not leave_receipt(tmp_path, receipt(ended(2), task=2))
    (found,) = ReceiptReader(tmp_path).read_new(everything)
    assert [event.record.id for event in found.events if isinstance(event, EntryFinished)] == [1]
    (path,) = tmp_path.iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == ("share-1-000000", 0o600)


def test_each_receipt_is_read_once_and_parts_come_before_their_share(tmp_path):
    """So that what a share's receipt relies on is known."""
    leave_receipt(tmp_path, receipt(ended(1), number=0))
    leave_receipt(tmp_path, receipt(ended(2)))
    receipts = ReceiptReader(tmp_path)
    assert [one.number for one in receipts.read_new(everything)] == [0, None]
    assert list(receipts.read_new(everything)) == []


def test_a_torn_part_is_passed_over_and_a_torn_share_is_named(tmp_path):
    """A part is written without waiting for the disk; a share's receipt must not be."""
    (tmp_path / "part-1-000000-1-0").write_bytes(b'{"schema":')
    assert list(ReceiptReader(tmp_path).read_new(everything)) == []
    (tmp_path / "share-1-000000").write_bytes(b"")
    with pytest.raises(LocalFault, match="share-1-000000 is damaged"):
        list(ReceiptReader(tmp_path).read_new(everything))


def test_a_directory_that_has_gone_is_a_local_fault(tmp_path):
    """Not a traceback, for the task and for the driver."""
    with pytest.raises(LocalFault, match="cannot leave a receipt"):
        leave_receipt(tmp_path / "gone", receipt())
    with pytest.raises(LocalFault, match="cannot use"):
        list(ReceiptReader(tmp_path / "gone").read_new(everything))


def test_an_entry_that_two_copies_have_brought_is_told_once():
    """Done by one, found standing by the other."""
    account = Account()
    assert told(account, receipt(ended(1), number=0), receipt(ended(1, "skipped"), task=2)) == [(1, "done")]
    assert 1 in account
    assert 2 not in account


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_what_one_copy_could_not_bring_another_may(status):
    """It is held back until the share is over."""
    account = Account()
    assert told(account, receipt(ended(1, status), number=0)) == []
    assert told(account, receipt(ended(1), number=0, task=2)) == [(1, "done")]
    assert told(account, receipt(task=2)) == []
    assert list(account.close()) == []


def test_what_nobody_could_bring_is_told_at_the_end_of_its_share():
    """Or, where the share has none, of the run; once."""
    account = Account()
    first = receipt(ended(1, "failed"), number=0)
    assert told(account, first, receipt()) == [(1, "failed")]
    assert told(account, receipt(ended(2, "cancelled"), number=0, share=1, task=2)) == []
    assert [event.record.id for event in account.close() if isinstance(event, EntryFinished)] == [2]
    assert list(account.close()) == []


def test_a_share_tells_what_its_parts_have_not():
    """Its receipt has all events of its task, and no retry is told twice."""
    retry = RetryScheduled(t_s=0.0, id=1, path="f", n=1, delay_s=1.0, error_kind="transient", error="reset")
    account = Account()
    assert list(account.take_in(receipt(retry, number=0))) == [retry]
    assert list(account.take_in(receipt(retry, retry, ended(1)))) == [retry, ended(1)]
    assert list(account.take_in(receipt(retry, task=2))) == [retry]


def parts_of(events, *, each, task=1):
    """One task's parts, in their order."""
    return [
        msgspec.structs.replace(receipt(*events[first : first + each], task=task, number=number), first=first)
        for number, first in enumerate(range(0, len(events), each))
    ]


def test_an_account_is_a_bit_an_entry():
    """The driver has one of all files of a run."""
    account = Account()
    for number in (10_000_000, 3, 3):
        account.add(number)
    there = [number for number in (2, 3, 4, 11, 9_999_999, 10_000_000, 10_000_001) if number in account]
    assert there == [3, 10_000_000]
    assert len(account) == 2
    assert len(account._ended) < 10_000_000 / 6


def test_many_parts_of_a_task_in_one_look(tmp_path):
    """A driver that is behind finds several at once, ten and more of them: no file is lost."""
    events = [ended(number) for number in range(24)]
    for part in parts_of(events, each=2):
        leave_receipt(tmp_path, part)
    found = list(ReceiptReader(tmp_path).read_new(everything))
    assert [one.number for one in found] == list(range(12))
    assert told(Account(), *found) == [(number, "done") for number in range(24)]


def test_a_part_that_was_torn_is_told_by_its_share():
    """Later parts do not speak for it."""
    events = [ended(number) for number in range(6)]
    parts = parts_of(events, each=2)
    account = Account()
    assert told(account, parts[0], parts[2]) == [(one, "done") for one in (0, 1, 4, 5)]
    assert told(account, receipt(*events)) == [(2, "done"), (3, "done")]


def test_other_events_are_told_as_they_are():
    """Retries of two copies are two."""
    retry = RetryScheduled(t_s=0.0, id=1, path="f", n=1, delay_s=1.0, error_kind="transient", error="reset")
    assert list(Account().take_in(receipt(retry, retry, number=0))) == [retry, retry]


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
    record = msgspec.structs.replace(ended(1, status).record, **{"path": "deep/file"} | facts)
    volume = Directory(tmp_path)
    assert is_in_place(volume, record) is is_there
    volume.close()


def test_a_file_that_has_changed_since_its_receipt_does_not_count(tmp_path):
    """Its bytes or its permissions, of which one time tells; a receipt that has gone vouches for none."""
    (tmp_path / "file").write_bytes(b"abc")
    record = msgspec.structs.replace(ended(1).record, path="file", bytes=3)
    left = receipt(ended(1))
    assert leave_receipt(tmp_path, left)
    reader, volume = ReceiptReader(tmp_path), Directory(tmp_path)
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
    record = msgspec.structs.replace(ended(1).record, path="deep/file")
    volume = Directory(tmp_path / "to")
    assert not is_in_place(volume, record)
    volume.close()
