"""An entry that is a byte range of its URL: asked for, resumed, split and known again as just that range."""

import pytest

from cfetch.base.records import FileRecord
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.resume import fits, identity_of, note_for, part_name
from cfetch.storage.standing_files import StandingFiles
from cfetch.storage.volume_values import batch_id
from cfetch.wire.partial_replies import MAX_SKIPPED_BYTES
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = b"".join(number.to_bytes(4, "big") for number in range(50_000))
START, END = 1_001, 150_001
FILE = BODY[START:END]
FAR = bytes(MAX_SKIPPED_BYTES + 1) + BODY


@pytest.fixture
def volume(tmp_path):
    made = Directory(tmp_path / "to", "attempts/i/0")
    yield made
    made.close()


def one(tmp_path, script, *, digest=False, start=START, body=FILE, **settings):
    """A run over one range of the object ``a``."""
    entry = entry_of(0, "a", body, digest=digest, range_start=start)
    return drive(tmp_path, {"a": script}, [entry], **settings)


def asked(outcome):
    return [opened.range for opened in outcome.transport.of("a")]


@pytest.mark.parametrize("digest", [False, True])
def test_a_range_is_a_file(tmp_path, digest):
    """Asked for with both ends, verified by size or hash, published with just these bytes."""
    outcome = one(tmp_path, Reply(body=BODY), digest=digest)
    assert asked(outcome) == [f"bytes={START}-{END - 1}"]
    assert outcome.tree == {"a": FILE}
    record: FileRecord = outcome.records["a"]
    assert (record.size_bytes, record.verified) == (len(FILE), "sha256" if digest else "size")


def test_a_broken_range_goes_on_from_its_bytes(tmp_path):
    """Under the object's ETag, and no further than to the range's end."""
    outcome = one(tmp_path, [Reply(body=BODY, cut=70_000, then="reset"), Reply(body=BODY)])
    assert asked(outcome) == [f"bytes={START}-{END - 1}", f"bytes={START + 70_000}-{END - 1}"]
    assert outcome.transport.of("a")[1].if_range == '"v1"'
    assert outcome.tree == {"a": FILE}
    assert outcome.last_progress.bytes_wasted == 0


def test_an_object_that_changes_between_two_tries_is_asked_for_anew(tmp_path):
    """If-Range brings the new version whole: nothing of it may follow the old bytes."""
    new = BODY[::-1]
    replies = [Reply(body=BODY, cut=70_000, then="reset"), Reply(body=new, etag='"v2"')]
    outcome = one(tmp_path, replies)
    assert asked(outcome)[-1] == f"bytes={START}-{END - 1}"
    assert outcome.tree == {"a": new[START:END]}


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_server_without_ranges_gives_the_wanted_bytes(tmp_path, framing):
    """It sends the whole object: the range is cut out of it, and the hash proves it."""
    outcome = one(tmp_path, Reply(body=BODY, ranges=False, framing=framing, rate_bps=1e6), digest=True)
    assert outcome.tree == {"a": FILE}
    assert outcome.records["a"].attempts[0].bytes == len(FILE)
    assert outcome.transport.left_open() == []


def test_a_server_without_ranges_that_is_broken_off_leaves_no_wrong_bytes(tmp_path):
    """What waits to be read of a whole object is not the range's next bytes."""
    scripts: dict[str, object] = {str(number): Reply(body=BODY) for number in range(9)}
    entries = [entry_of(number, str(number), BODY) for number in range(9)]
    scripts["a"] = [Reply(body=BODY, ranges=False, at_s=(0.0, 40.0, 40.0)), Reply(body=BODY)]
    entries.append(entry_of(9, "a", FILE, range_start=START, digest=True))
    outcome = drive(tmp_path, scripts, entries, stall_timeout=5.0)
    assert len(asked(outcome)) > 1
    assert outcome.tree["a"] == FILE


REFUSED = {
    "too far to skip": (Reply(body=FAR, ranges=False), len(FAR) - 9, FAR[-9:], "which is more than"),
    "ends within the range": (Reply(body=BODY), len(BODY) - 5, bytes(9), "ends at byte"),
    "ends before the range": (Reply(body=BODY), len(BODY) + 5, bytes(9), "HTTP 416"),
    "whole, or an error page": (Reply(body=BODY, ranges=False), 3, BODY[3:12], "no hash"),
    "whole and too short": (Reply(body=BODY, ranges=False), len(BODY) - 5, bytes(9), "ends at byte"),
}


@pytest.mark.parametrize(("reply", "start", "body", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_no_other_try_would_bring_fails_with_the_reason(tmp_path, reply, start, body, why):
    """After one request."""
    outcome = one(tmp_path, reply, start=start, body=body, digest=why != "no hash")
    assert outcome.statuses == ["failed"]
    assert why in outcome.records["a"].error
    assert len(asked(outcome)) == 1
    assert outcome.tree == {}


@pytest.mark.parametrize(
    "shown", [f"bytes 0-{END - START - 1}/200000", "bytes */200000", "bytes 1001-1002/x"]
)
def test_a_wrong_content_range_is_refused(tmp_path, shown):
    """Even with the right number of bytes."""
    wrong = Reply(body=FILE, status=206, headers={"Content-Range": shown})
    outcome = one(tmp_path, [wrong, Reply(body=BODY)])
    assert [attempt.outcome for attempt in outcome.records["a"].attempts] == ["error", "done"]
    assert outcome.tree == {"a": FILE}


def test_an_empty_range_needs_no_request(tmp_path):
    """As an empty member of an archive."""
    outcome = one(tmp_path, Reply(body=BODY), body=b"")
    assert asked(outcome) == []
    assert outcome.tree == {"a": b""}


def test_idle_workers_help_within_the_range(tmp_path):
    """Their segments lie where the range lies in its object."""
    body = BODY * 10
    entry = entry_of(0, "a", body[START:-START], range_start=START)
    outcome = drive(
        tmp_path, {"a": Reply(body=body, rate_bps=1e5, latency_s=0.1)}, [entry], policy="adaptive"
    )
    places = [tuple(map(int, text.removeprefix("bytes=").split("-"))) for text in asked(outcome)]
    assert len(places) > 1
    assert all(START <= first <= last < len(body) - START for first, last in places)
    assert outcome.tree == {"a": body[START:-START]}


OTHERS = {"another range": {"range_start": START + 4}, "the whole": {}}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_two_ranges_of_one_url_never_pass_for_each_other(tmp_path, other):
    """Not for one of the same path and size: neither as a file in place nor as a part of a dead run."""
    entry, stranger = entry_of(0, "a", FILE, range_start=START), entry_of(0, "a", FILE, **other)
    note = note_for(entry, '"v1"', "boot")
    assert fits(note, entry, 9, "boot")
    assert not fits(note, stranger, 9, "boot")
    assert identity_of(entry) != identity_of(stranger)
    assert part_name(entry, "boot") != part_name(stranger, "boot")
    assert batch_id([entry]) != batch_id([stranger])


@pytest.mark.parametrize(("start", "vouched_for"), [(START, "size"), (START + 4, None)])
async def test_a_second_run_knows_the_range_again(volume, start, vouched_for):
    """And brings another one, although path, link and size are the same."""
    careful = DirectoryVolume(volume, durable=False)
    part = careful.new_part(entry_of(0, "a", FILE, range_start=START))
    part.write(FILE)
    part.validator = '"v1"'
    part.verify(len(FILE), None)
    part.publish()
    wanted = entry_of(0, "a", FILE, range_start=start)
    standing = await careful.verify_existing(wanted)
    assert (standing and standing.verified) == vouched_for
    assert StandingFiles(volume).find([wanted]) == [vouched_for]
