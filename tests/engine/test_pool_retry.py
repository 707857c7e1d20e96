"""What a worker does when a try fails: resume, restart, wait, fetch anew, give up. On virtual time."""

import hashlib
from pathlib import Path

import pytest

from cfetch.base.errors import Transient
from cfetch.base.events import EntryFinished, Progress, RetryScheduled
from cfetch.base.secret import SecretUrl
from cfetch.storage.resume import identity
from cfetch.storage.source_records import set_source, source_of
from cfetch.storage.volume_values import SourceRecord
from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import Reply

BODY = bytes(range(256)) * 400  # 100 KiB
OTHER = BODY[::-1]


def one(tmp_path, script, *, entry=None, **settings):
    """A run over one file, ``a``."""
    scripts = {"a": script}
    return drive(tmp_path, scripts, entries=None if entry is None else [entry], **settings)


def asked(outcome, path="a"):
    return [(a.range, a.if_range, a.fresh) for a in outcome.transport.of(path)]


@pytest.mark.parametrize("then", ["reset", "end"])
def test_a_broken_body_goes_on_from_its_bytes(tmp_path, then):
    """After a reset or a cut (1, 4) the next try asks for the rest, on a fresh connection."""
    outcome = one(tmp_path, [Reply(body=BODY, cut=1000, then=then), Reply(body=BODY)])
    assert asked(outcome) == [(None, None, False), ("bytes=1000-", '"v1"', True)]
    assert outcome.tree == {"a": BODY}
    record = outcome.records["a"]
    assert [(t.from_byte, t.bytes) for t in record.attempts] == [(0, 1000), (1000, len(BODY) - 1000)]
    assert outcome.last_progress.bytes_wasted == 0
    assert [event.n for event in outcome.of(RetryScheduled)] == [2]


def test_a_straggler_goes_on_from_its_bytes_on_a_fresh_connection(tmp_path):
    """Nothing that a cancelled straggler had is fetched again."""
    scripts: dict[str, object] = {str(i): Reply(body=BODY) for i in range(9)}
    scripts["a"] = [Reply(body=BODY, rate_bps=len(BODY) / 100), Reply(body=BODY)]
    outcome = drive(tmp_path, scripts, padding=6.0)
    (told,) = outcome.cancelled
    kept = told.kept_bytes
    assert 0 < kept < len(BODY)
    assert asked(outcome) == [(None, None, False), (f"bytes={kept}-", '"v1"', True)]
    assert outcome.tree["a"] == BODY
    assert outcome.records["a"].attempts[1].outcome == "done"


@pytest.mark.parametrize(("etag", "digest", "resumes"), [
    ('W/"v1"', False, False), (None, False, False), (None, True, True), ('W/"v1"', True, True),
    ('"v1"', False, True),
])  # fmt: skip
def test_what_may_join_bytes_of_two_replies(tmp_path, etag, digest, resumes):
    """A strong validator or a hash (22); without either the part is dropped."""
    entry = entry_of(0, "a", BODY, digest=digest)
    outcome = one(tmp_path, [Reply(body=BODY, cut=1000, etag=etag), Reply(body=BODY, etag=etag)], entry=entry)
    assert outcome.transport.of("a")[1].range == ("bytes=1000-" if resumes else None)
    assert outcome.tree == {"a": BODY}


@pytest.mark.parametrize("body", [BODY, OTHER])
def test_a_body_whose_end_goes_wrong_after_its_last_byte(tmp_path, body):
    """All bytes of a chunked body came and then a reset (6): verified as they are, not fetched once more."""
    broken = Reply(body=body, cut=len(body), then="reset", framing="chunked")
    outcome = one(tmp_path, [broken, Reply(body=BODY)], entry=entry_of(0, "a", BODY, digest=True))
    assert outcome.tree == {"a": BODY}
    assert len(outcome.transport.opens) == (1 if body is BODY else 2)
    assert outcome.records["a"].attempts[0].outcome == ("done" if body is BODY else "error")


@pytest.mark.parametrize("digest", [False, True])
def test_the_file_changes_between_two_tries(tmp_path, digest):
    """If-Range brings the new version whole (21): never a mixture of both. A hash finds that out itself."""
    entry = entry_of(0, "a", OTHER, digest=digest)
    outcome = one(tmp_path, [Reply(body=BODY, cut=1000), Reply(body=OTHER, etag='"v2"')], entry=entry)
    assert outcome.tree == {"a": OTHER}
    assert len(outcome.transport.opens) == (3 if digest else 2)


def test_replicas_of_other_etags_cost_nothing_under_a_hash(tmp_path):
    """Each request meets another replica, and brings a part: four requests, and every byte once."""
    replicas = [Reply(body=BODY, cut=30_000, then="reset", etag=f'"replica-{n}"') for n in range(4)]
    outcome = one(tmp_path, replicas, entry=entry_of(0, "a", BODY, digest=True))
    assert outcome.tree == {"a": BODY}
    assert [a.if_range for a in outcome.transport.opens] == [None] * 4
    assert outcome.last_progress.bytes_wasted == 0


@pytest.mark.parametrize("digest", [False, True])
def test_hosts_of_one_redirect_are_not_one_server(tmp_path, digest):
    """Equal ETags of two hosts, as nginx makes them of time and size: only a hash joins their bytes."""
    script = [
        Reply(body=BODY, cut=1000, place="http://a.test/x"),
        Reply(body=BODY if digest else OTHER, place="http://b.test/x"),
        Reply(body=OTHER, place="http://b.test/x"),
    ]
    outcome = one(tmp_path, script, entry=entry_of(0, "a", BODY, digest=digest))
    assert outcome.tree == {"a": BODY if digest else OTHER}
    ranges = [a.range for a in outcome.transport.opens]
    assert ranges == [None, "bytes=1000-", None][: 2 if digest else 3]


def test_bytes_are_gone_on_with_under_the_validator_of_their_own_reply(tmp_path):
    """The server turns back to a version that an earlier reply without bytes was of: nothing is joined."""
    script = [
        Reply(body=OTHER, cut=0, then="reset"),
        Reply(body=BODY, cut=1000, then="reset", etag='"v2"'),
        Reply(body=OTHER),
    ]
    outcome = one(tmp_path, script)
    assert asked(outcome)[2][:2] == ("bytes=1000-", '"v2"')
    assert outcome.tree == {"a": OTHER}


def test_a_server_that_ignores_if_range_is_found_out(tmp_path):
    """206 of another version: its ETag tells, and the whole file is fetched again."""
    liar = Reply(body=OTHER, headers={"ETag": '"v2"'})
    outcome = one(tmp_path, [Reply(body=BODY, cut=1000), liar, Reply(body=OTHER, etag='"v2"')])
    assert [a.range for a in outcome.transport.opens] == [None, "bytes=1000-", None]
    assert outcome.tree == {"a": OTHER}


def test_a_server_without_ranges_starts_anew(tmp_path):
    """200 instead of 206 (18): the part is truncated first and the counters follow."""
    outcome = one(tmp_path, [Reply(body=BODY, cut=1000), Reply(body=BODY, ranges=False)])
    assert outcome.tree == {"a": BODY}
    assert outcome.records["a"].attempts[1].from_byte == 0
    assert outcome.last_progress.bytes_wasted == 1000


def test_a_416_is_never_done(tmp_path):
    """The server has less than our part (19, 20): forget it and ask for the whole."""
    script = [Reply(body=BODY, cut=1000), Reply(body=BODY, status=416), Reply(body=BODY)]
    outcome = one(tmp_path, script)
    assert [a.range for a in outcome.transport.opens] == [None, "bytes=1000-", None]
    assert outcome.tree == {"a": BODY}


def test_mixed_bytes_that_no_validator_guards_fail_the_hash_and_come_anew(tmp_path):
    """An earlier reset does not use up the one fresh fetch that a wrong hash gets."""
    entry = entry_of(0, "a", OTHER, digest=True)
    script = [Reply(body=BODY, cut=1000, etag=None), Reply(body=OTHER, etag=None)]
    outcome = one(tmp_path, script, entry=entry)
    assert [a.range for a in outcome.transport.opens] == [None, "bytes=1000-", None]
    assert outcome.tree == {"a": OTHER}


def test_a_corrupt_body_is_fetched_once_more_and_then_failed(tmp_path):
    """Size right, hash wrong (24): two requests, no final file, no part."""
    outcome = one(tmp_path, Reply(body=OTHER), entry=entry_of(0, "a", BODY, digest=True))
    record = outcome.records["a"]
    assert len(outcome.transport.opens) == 2
    assert (record.status, record.error_kind, record.verified) == ("failed", "corrupt", "none")
    assert "sha256" in record.error
    assert (outcome.tree, outcome.parts) == ({}, [])


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_body_longer_than_stated_is_cut_off_and_refused(tmp_path, framing):
    """One byte beyond the manifest's size (32) ends it for good; what follows is not read."""
    endless = Reply(body=BODY + b"x" * 999, framing=framing, rate_bps=1e6)
    outcome = one(tmp_path, endless, entry=entry_of(0, "a", BODY))
    assert outcome.statuses == ["failed"]
    assert len(outcome.transport.opens) == 1
    assert (outcome.tree, outcome.parts) == ({}, [])


def test_a_length_that_contradicts_the_manifest_costs_no_byte(tmp_path):
    """200 with another Content-Length (2) is refused by its head."""
    outcome = one(tmp_path, Reply(body=BODY), entry=entry_of(0, "a", BODY, size=7))
    assert outcome.records["a"].attempts[0].bytes == 0
    assert outcome.statuses == ["failed"]


@pytest.mark.parametrize(("framing", "digest", "status"), [
    ("close", False, "failed"), ("close", True, "done"), ("chunked", False, "done"),
    ("length", False, "done"),
])  # fmt: skip
def test_a_body_that_only_the_connection_ends(tmp_path, framing, digest, status):
    """Without size and hash nobody can tell that it is whole (3, 5): refused."""
    entry = entry_of(0, "a", BODY, size=False, digest=digest)
    outcome = one(tmp_path, Reply(body=BODY, framing=framing), entry=entry)
    assert outcome.statuses == [status]
    assert ("a" in outcome.tree) == (status == "done")


def test_a_503_waits_as_long_as_it_says(tmp_path):
    """Retry-After beats the own back-off; the announcement tells the wait."""
    busy = Reply(status=503, headers={"Retry-After": "7"})
    outcome = one(tmp_path, [busy, Reply(body=BODY)])
    (told,) = outcome.of(RetryScheduled)
    assert (told.delay_s, told.error_kind) == (7.0, "throttled")
    assert outcome.elapsed_s == pytest.approx(7.0, abs=0.002)


def test_a_429_is_no_try_of_the_file_but_takes_of_its_time(tmp_path):
    """A host that refuses everything for a while costs no file, whichever one is the probe each time."""
    busy = Reply(status=429, headers={"Retry-After": "1"})
    outcome = one(tmp_path, [busy] * 20 + [Reply(status=500), Reply(body=BODY)], max_attempts=2)
    assert outcome.statuses == ["done"]
    assert 20 <= outcome.elapsed_s < 30
    outcome = one(tmp_path, busy, max_attempts=2, retry_budget=60.0)
    assert 50 < outcome.elapsed_s < 61
    assert "retry budget of 60 s" in outcome.records["a"].error


def test_a_retry_after_beyond_the_budget_fails_early(tmp_path):
    """Nobody waits for a date (43) that the budget does not reach."""
    busy = Reply(status=429, headers={"Retry-After": "86400"})
    outcome = one(tmp_path, busy, retry_budget=60.0)
    assert outcome.elapsed_s == 0
    assert "retry budget of 60 s" in outcome.records["a"].error


@pytest.mark.parametrize(("script", "requests", "status"), [
    ([503, 503, 200], 3, "done"), ([500, 200], 2, "done"), ([503], 3, "failed"), ([403], 1, "failed"),
    ([404], 1, "failed"), ([410], 1, "failed"), ([401], 1, "failed"), ([301], 1, "failed"),
    ([204], 1, "failed"),
    ([206], 1, "done"), ([304], 1, "failed"), ([421, 200], 2, "done"), ([425, 200], 2, "done"),
])  # fmt: skip
def test_p9_p20_how_many_requests_a_status_costs(tmp_path, script, requests, status):
    """Transient ones are repeated up to the limit of tries, permanent ones never; 206 may be the whole."""
    replies = [Reply(body=BODY, status=code) for code in script]
    outcome = one(tmp_path, replies, max_attempts=3)
    assert (len(outcome.transport.opens), outcome.statuses) == (requests, [status])


def test_p20_the_limit_that_ended_the_tries_is_named(tmp_path):
    """The record says what failed last and that there were three tries."""
    outcome = one(tmp_path, Reply(status=503), max_attempts=3)
    assert outcome.records["a"].error == "HTTP 503; gave up after 3 tries"
    assert outcome.last_progress.retries == 2


def test_p20_stopped_during_back_off(tmp_path):
    """A waiting worker leaves at once."""
    outcome = one(tmp_path, Reply(status=503, headers={"Retry-After": "100"}), stop_at=0.5)
    assert outcome.elapsed_s == 0.5
    assert outcome.statuses == ["cancelled"]


def test_p10_a_failed_entry_does_not_stop_the_others(tmp_path):
    """Unlike the original, which ends the query at its first failure."""
    scripts = {"a": Reply(status=404), "b": Reply(body=BODY), "c": Reply(body=BODY)}
    entries = [entry_of(i, path, BODY) for i, path in enumerate("abc")]
    outcome = drive(tmp_path, scripts, entries, concurrency=1)
    assert outcome.statuses == ["failed", "done", "done"]


@pytest.mark.parametrize(("status", "fresh"), [(421, True), (503, False)])
def test_421_asks_again_on_another_connection(tmp_path, status, fresh):
    """A misdirected request (41) needs one; a busy server does not."""
    outcome = one(tmp_path, [Reply(status=status), Reply(body=BODY)])
    assert [a.fresh for a in outcome.transport.opens] == [False, fresh]


def test_a_failed_connection_is_not_taken_from_the_pool_again(tmp_path):
    """An error without an HTTP status asks for a fresh one (50)."""
    outcome = one(tmp_path, [Reply(error=Transient("the connection broke")), Reply(body=BODY)])
    assert [a.fresh for a in outcome.transport.opens] == [False, True]


def test_the_headers_of_manifest_and_entry_go_with_the_request(tmp_path):
    """P16: sent unchanged; the entry's win over the manifest's."""
    from cfetch.base.secret import SecretText

    entry = entry_of(0, "a", BODY, headers={"X-Key": "own"})
    plan_headers = (("X-Key", SecretText("all")), ("X-More", SecretText("m")))
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], headers=plan_headers)
    assert outcome.transport.opens[0].secrets == {"X-Key": "own", "X-More": "m"}


def in_place(content, name="a", link=None):
    def put(root):
        (root / name).write_bytes(content)
        if link is not None:
            with open(root / name, "rb") as file:
                set_source(file.fileno(), SourceRecord(identity(SecretUrl(link)), None))

    return put


@pytest.mark.parametrize(("link", "status"), [
    (None, "skipped"), ("http://origin.test/a?sv=1&sr=b&se=1&sig=2", "skipped"),
    ("http://origin.test/b", "done"), ("http://origin.test/a?st=NY", "done"),
])  # fmt: skip
def test_a_file_that_came_from_another_link_is_fetched(tmp_path, link, status):
    """Its size is right, and nothing else speaks for it; a new signature makes no other link."""
    outcome = one(tmp_path, Reply(body=BODY), entry=entry_of(0, "a", BODY), before=in_place(OTHER, link=link))
    assert outcome.statuses == [status]
    assert outcome.tree == {"a": BODY if status == "done" else OTHER}


def test_what_was_fetched_tells_where_from(tmp_path):
    """So that a later run knows."""
    found = {}

    def look(event):
        if isinstance(event, EntryFinished):
            for path in tmp_path.rglob("a"):
                with open(path, "rb") as file:
                    found["source"] = source_of(file.fileno())

    one(tmp_path, Reply(body=BODY), entry=entry_of(0, "a", BODY), listener=look)
    assert found["source"] == SourceRecord(identity(SecretUrl("http://origin.test/a")), '"v1"', len(BODY))


@pytest.mark.parametrize(("there", "digest", "status"), [
    (BODY, False, "skipped"), (BODY, True, "skipped"), (OTHER, True, "done"), (OTHER, False, "skipped"),
    (BODY[:-1], False, "done"), (b"", True, "done"),
])  # fmt: skip
def test_what_is_in_place_is_not_fetched_again(tmp_path, there, digest, status):
    """By hash where there is one, else by size; a wrong file is replaced."""
    entry = entry_of(0, "a", BODY, digest=digest)
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], before=in_place(there))
    record = outcome.records["a"]
    assert (record.status, record.verified) == (status, "sha256" if digest else "size")
    assert len(outcome.transport.opens) == (status == "done")
    assert outcome.tree == {"a": there if status == "skipped" else BODY}


def test_what_nothing_vouches_for_is_fetched_again(tmp_path):
    """A file in place of an entry without size and hash says nothing."""
    entry = entry_of(0, "a", BODY, size=False)
    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], before=in_place(OTHER))
    assert outcome.tree == {"a": BODY}


@pytest.mark.parametrize("path", ["d", "link/a", "file/a"])
def test_a_place_that_is_taken_fails_that_entry_before_its_request(tmp_path, path):
    """A directory at the name, a symlink or a file where a directory should be (69, 70); the others go on."""
    outside = tmp_path / "outside"
    outside.mkdir()

    def before(root):
        (root / "d").mkdir()
        (root / "link").symlink_to(outside)
        (root / "file").write_bytes(b"x")

    outcome = drive(tmp_path, {path: Reply(body=BODY), "other": Reply(body=BODY)}, before=before)
    assert outcome.pool.fault is None
    assert {p: (r.status, r.error_kind) for p, r in outcome.records.items()} == {
        path: ("failed", "blocked"),
        "other": ("done", None),
    }
    assert [a.path for a in outcome.transport.opens] == ["other"]
    assert (outcome.parts, list(outside.iterdir())) == ([], [])


@pytest.mark.parametrize("durability", ["power", "crash"])
def test_a_directory_made_meanwhile_fails_that_entry_without_a_part(tmp_path, durability):
    """Publishing fails, the part goes, the others go on."""
    scripts = {"a": Reply(body=BODY, latency_s=1.0), "b": Reply(body=BODY)}
    roots: list[Path] = []

    def listener(event):
        if isinstance(event, Progress) and [view.path for view in event.active] == ["a"]:
            (roots[0] / "a").mkdir(exist_ok=True)

    how = {"concurrency": 1, "durability": durability}
    outcome = drive(tmp_path, scripts, listener=listener, before=roots.append, **how)
    assert outcome.parts == []
    assert {p: (r.status, r.error_kind) for p, r in outcome.records.items()} == {
        "a": ("failed", "blocked"),
        "b": ("done", None),
    }


def test_a_bug_in_a_worker_cancels_everything_and_surfaces(tmp_path):
    """No other worker goes on, no part stays, and the exception is not swallowed."""

    class BugError(Exception):
        pass

    seen = []

    def listener(event):
        seen.append(event)
        if isinstance(event, EntryFinished) and event.record.path == "b":
            raise BugError

    scripts = {"a": Reply(body=BODY, rate_bps=1000), "b": Reply(body=BODY, latency_s=1.0)}
    with pytest.raises(BugError):
        drive(tmp_path, scripts, listener=listener)
    ended = {e.record.path: e.record.status for e in seen if isinstance(e, EntryFinished)}
    assert ended == {"a": "cancelled", "b": "done"}
    assert not [p for p in tmp_path.rglob(".cfetch/**/*") if p.is_file()]


def test_the_record_tells_the_whole_story(tmp_path):
    """Times, bytes, statuses and peers of both tries of a reset file."""
    script = [
        Reply(body=BODY, cut=1000, then="reset", latency_s=0.5),
        Reply(body=BODY, latency_s=0.25, rate_bps=1e5),
    ]
    outcome = one(tmp_path, script, entry=entry_of(0, "a", BODY, digest=True, offset=17), segments=1)
    record = outcome.records["a"]
    first, second = record.attempts
    assert (record.offset, record.host, record.verified) == (17, "origin.test", "sha256")
    assert record.bytes == len(BODY)
    assert (first.n, first.start_s, first.first_byte_s, first.end_s) == (1, 0.0, 0.5, 0.5)
    assert (first.http_status, second.http_status, second.peer) == (200, 206, "192.0.2.1:80")
    assert first.error == "the connection broke: Connection reset by peer"
    assert second.start_s == pytest.approx(0.75)  # half of the base of 0.5 s
    assert second.samples[-1][1] <= len(BODY) - 1000
    assert record.rate_bps == pytest.approx(len(BODY) / record.end_s, rel=1e-3)
    assert hashlib.sha256(outcome.tree["a"]).hexdigest() == hashlib.sha256(BODY).hexdigest()


def test_samples_are_bounded_however_long_a_try_takes(tmp_path):
    """Three hundred pieces over three hundred seconds leave at most 32 samples, in order."""
    slow = Reply(body=BODY, at_s=tuple(float(i) for i in range(1, 301)))
    outcome = one(tmp_path, slow, stall_timeout=60.0, segments=1)
    samples = outcome.records["a"].attempts[0].samples
    assert 8 <= len(samples) <= 32
    assert samples == sorted(samples)
    assert samples[-1][0] > 150


def test_entries_for_gives_ids_in_order():
    """The helper itself: ids are indices, sizes the bodies'."""
    assert [(e.id, e.size_bytes) for e in entries_for({"x": Reply(body=b"1"), "y": Reply()})] == [
        (0, 1),
        (1, 0),
    ]
