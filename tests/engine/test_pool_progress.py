"""Limits that progress resets, truth about lengths, and silence that is our own."""

import hashlib
from base64 import b64encode
from typing import Any

import pytest

from cfetch.base.errors import LocalFault, Transient
from cfetch.base.events import Progress
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.storage.directory import Directory
from cfetch.storage.resume import encode_note, note_for, part_name
from cfetch.storage.staging import boot_id
from cfetch.wire.document import SILENCE_S, fetch_document
from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import FakeTransport, Reply

BODY = bytes(range(256)) * 4000


def test_progress_renews_tries_and_budget(tmp_path):
    """A large file over a line that breaks ever so often arrives, however often that is."""
    cut = Reply(body=BODY, cut=100_000, then="reset", rate_bps=1000)
    scripts = {"a": [cut] * 10 + [Reply(body=BODY)]}
    outcome = drive(tmp_path, scripts, max_attempts=3, retry_budget=60.0, mitigation=False)
    assert outcome.statuses == ["done"]
    assert outcome.tree == {"a": BODY}
    assert len(outcome.transport.opens) == 11


def test_bytes_that_are_kept_for_a_retry_stay_in_the_count(tmp_path):
    """A host may be away for a minute; nothing of the file is lost meanwhile."""
    cut = Reply(body=BODY, cut=300_000, then="reset", rate_bps=500_000)
    scripts = {"a": [cut, Reply(body=BODY, rate_bps=500_000)]}
    outcome = drive(tmp_path, scripts, mitigation=False)
    looks = [event for event in outcome.events if isinstance(event, Progress)]
    sums = [look.bytes_done + look.bytes_active for look in looks]
    assert any(not look.active and look.bytes_active for look in looks)
    assert sums == sorted(sums)
    assert sums[-1] == len(BODY)


def test_a_size_counts_as_soon_as_a_reply_states_it(tmp_path):
    """It stays in the totals between two tries and at the end, and a body without a length adds none.

    While a file is asked for again it keeps its size too: else a run's share would fall in an outage.
    """
    scripts = {
        "a": [
            Reply(body=BODY, cut=300_000, then="reset", rate_bps=500_000),
            Reply(body=BODY, rate_bps=500_000),
        ],
        "b": Reply(body=BODY[:1000], latency_s=1.5),
    }
    outcome = drive(tmp_path, scripts, entries_for(scripts, size=False), mitigation=False)
    looks = outcome.of(Progress)
    assert (looks[0].files, looks[0].bytes_known, looks[0].sizes_unknown) == (2, 0, 2)
    assert looks[0].bytes_total is None
    begun = [look for look in looks if 0 < look.bytes_active < 250_000]
    assert begun
    assert {(look.bytes_known, look.sizes_unknown) for look in begun} == {(len(BODY), 1)}
    quick = {"c": [Reply(body=BODY, cut=300_000, then="reset"), Reply(body=BODY, latency_s=9.0)]}
    between = drive(tmp_path, quick, entries_for(quick, size=False), mitigation=False).of(Progress)
    assert {look.bytes_known for look in between if look.bytes_active} == {len(BODY)}
    asked_anew = [a for look in between for a in look.active if a.n == 2]
    assert {(a.size_bytes, a.file_size_bytes) for a in asked_anew} == {(len(BODY), len(BODY))}
    resting = [look for look in looks if look.bytes_active and all(a.path != "a" for a in look.active)]
    assert resting
    assert all(look.bytes_known >= len(BODY) for look in resting)
    assert looks[-1].bytes_total == looks[-1].bytes_in_hand == len(BODY) + 1000


@pytest.mark.parametrize("size", [True, False])
def test_a_file_that_waits_for_the_name_of_its_group_is_whole(tmp_path, size):
    """With --durability power names are given in groups; until then a file that has come is not nothing.

    Also where the manifest states no size that it could be verified by.
    """
    scripts = {
        "a": Reply(body=BODY, latency_s=0.1),
        "b": Reply(body=BODY, rate_bps=500_000),
    }
    outcome = drive(tmp_path, scripts, entries_for(scripts, size=size), mitigation=False, durability="power")
    looks = outcome.of(Progress)
    assert any(look.whole == 1 and look.done == 0 for look in looks)
    assert all(look.done + look.whole <= 2 for look in looks)
    assert (looks[-1].done, looks[-1].whole) == (2, 0)


def test_without_progress_the_tries_are_counted(tmp_path):
    """A few bytes at a time are no progress: such a server would keep us for ever."""
    scripts = {"a": Reply(body=BODY, cut=100, then="reset")}
    outcome = drive(tmp_path, scripts, max_attempts=3)
    assert outcome.statuses == ["failed"]
    assert len(outcome.transport.opens) == 3


@pytest.mark.parametrize("total", ["*", "1500"])
def test_a_length_once_stated_is_not_forgotten(tmp_path, total):
    """The first reply said 10,240 bytes; a rest that ends at 1,500 is not this file's rest."""
    whole = BODY[:10240]
    liar = Reply(
        body=whole[:1500], status=206, headers={"Content-Range": f"bytes 1000-1499/{total}"}, ranges=False
    )
    scripts = {"a": [Reply(body=whole, cut=1000, then="reset"), liar, Reply(body=whole)]}
    outcome = drive(tmp_path, scripts, [entry_of(0, "a", whole, size=False)])
    assert outcome.tree in ({"a": whole}, {})


def test_one_permitted_try_is_still_rescued(tmp_path):
    """A cancelled straggler costs no try, so --max-attempts 1 does not turn mitigation off."""
    scripts: dict[str, Any] = {str(i): Reply(body=BODY, latency_s=0.1) for i in range(9)}
    scripts["slow"] = [Reply(body=BODY, rate_bps=100), Reply(body=BODY)]
    outcome = drive(tmp_path, scripts, max_attempts=1, padding=1.0)
    assert set(outcome.statuses) == {"done"}
    assert outcome.elapsed_s < 10


def test_a_silent_document_is_given_up(tmp_path):
    """Nobody else watches a manifest being fetched."""

    async def main():
        transport = FakeTransport({"m": Reply(body=BODY, cut=10, then="stall")})
        with (tmp_path / "m").open("wb") as sink:
            await fetch_document(
                SecretUrl("http://h.test/m"),
                sink,
                transport=transport,
                clock=VirtualClock(),
                jitter=lambda: 0.5,
            )

    with pytest.raises(Transient, match=f"no byte for {SILENCE_S:g} s"):
        run_virtual(main())


def test_many_workers_of_one_host_wake_one_another(tmp_path):
    """A place that is freed goes to one waiting worker, and in the end nobody waits for ever."""
    scripts = {str(i): Reply(body=BODY[:100], latency_s=0.1) for i in range(40)}
    outcome = drive(tmp_path, scripts, concurrency=20, per_host=1)
    assert outcome.statuses == ["done"] * 40
    assert outcome.transport.most == 1


@pytest.mark.parametrize("digest", [True, False])
def test_a_whole_part_of_a_dead_run_is_published_without_a_request(tmp_path, digest):
    """It died between the last byte and the name; with a hash the part proves itself."""
    entry = entry_of(0, "a", BODY, digest=digest)
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], before=leaves(entry, BODY))
    assert outcome.tree == {"a": BODY}
    assert outcome.transport.opens == []
    assert outcome.records["a"].verified == ("sha256" if digest else "size")
    assert outcome.parts == []


def test_a_whole_part_that_is_wrong_is_fetched_anew(tmp_path):
    """Its note fits and its hash does not: bits rot, and crashes leave holes."""
    entry = entry_of(0, "a", BODY, digest=True)
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], before=leaves(entry, BODY[::-1]))
    assert outcome.tree == {"a": BODY}
    assert [asked.range for asked in outcome.transport.opens] == [None]


def test_a_part_of_a_dead_run_is_gone_on_with(tmp_path):
    """From its last byte, under the ETag that it came with."""
    entry = entry_of(0, "a", BODY)
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], before=leaves(entry, BODY[:1000]))
    assert outcome.tree == {"a": BODY}
    assert [(a.range, a.if_range) for a in outcome.transport.opens] == [("bytes=1000-", '"v1"')]
    assert outcome.records["a"].attempts[0].bytes == len(BODY) - 1000


@pytest.mark.parametrize("then", [{}, {"cut": 5000, "then": "reset"}])
@pytest.mark.parametrize("left", [BODY[:9000], b"x" + BODY[1:9000]])
def test_the_bytes_of_a_dead_run_are_verified_by_the_hash_that_the_store_states_later(tmp_path, left, then):
    """They are read again for it; if they are wrong, all of the file is fetched."""
    stated = b64encode(hashlib.md5(BODY).digest()).decode()
    headers = {"x-goog-hash": f"md5={stated}"}
    entry = entry_of(0, "a", BODY)
    replies = [Reply(body=BODY, headers=headers, **then), Reply(body=BODY, headers=headers)]
    outcome = drive(tmp_path, {"a": replies}, [entry], before=leaves(entry, left))
    assert outcome.tree == {"a": BODY}
    assert outcome.records["a"].verified == "server-md5"
    asked = [asked.range for asked in outcome.transport.opens]
    rest = ["bytes=9000-", "bytes=14000-"] if then else ["bytes=9000-"]
    assert asked == (rest if left == BODY[:9000] else [*rest, None])


def test_names_that_cannot_be_made_durable_are_a_local_fault(tmp_path, monkeypatch):
    """The last flush fails: the file has its name, but nobody may vouch for it; exit 3."""
    real, calls = Directory.flush, []

    def flush(volume):
        calls.append(1)
        if len(calls) > 1:
            raise LocalFault("the disk is broken")
        real(volume)

    monkeypatch.setattr(Directory, "flush", flush)
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, durability="power")
    assert (str(outcome.pool.fault), outcome.statuses) == ("the disk is broken", ["failed"])


def leaves(entry, data):
    """A dead attempt of which the timeline has kept ``data`` as a part of ``entry``."""

    def before(root):
        kept = root / ".cfetch/attempts/i/1-0"
        kept.mkdir(parents=True)
        name = part_name(entry, boot_id())
        (kept / name).write_bytes(data)
        (kept / f"{name}.note").write_bytes(encode_note(note_for(entry, '"v1"', boot_id())))

    return before
