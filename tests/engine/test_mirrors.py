"""An entry with several sources: which one is asked, and which bytes may be joined. On virtual time."""

import pytest

from cfetch.base.errors import Transient
from cfetch.base.secret import SecretText, SecretUrl
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = bytes(range(256)) * 1000  # 250 KiB
OTHER = BODY[::-1]


def mirrored(number, path, *, count=1, **how):
    """An entry whose mirrors are ``m1/path``, ``m2/path``… on hosts of their own."""
    mirrors = tuple(SecretUrl(f"http://m{n}.test/m{n}/{path}") for n in range(1, count + 1))
    return entry_of(number, path, BODY, mirrors=mirrors, **{"digest": True, **how})


def run(tmp_path, scripts, entry=None, **settings):
    return drive(tmp_path, scripts, [entry or mirrored(0, "a", count=len(scripts) - 1)], **settings)


def asked(outcome):
    return [(a.path, a.range, a.if_range) for a in outcome.transport.opens]


def test_a_healthy_source_is_the_only_one_asked(tmp_path):
    """Mirrors are for when something is wrong."""
    outcome = run(tmp_path, {"a": Reply(body=BODY), "m1/a": Reply(body=BODY)})
    assert asked(outcome) == [("a", None, None)]
    assert outcome.records["a"].attempts[0].mirror is None


@pytest.mark.parametrize("bad", [
    Reply(status=404), Reply(status=403), Reply(body=OTHER), Reply(body=BODY[:-1]),
    Reply(error=Transient("refused")), Reply(status=503, headers={"Retry-After": "60"}),
])  # fmt: skip
def test_c23_a_source_that_fails_is_left_for_the_mirror_at_once(tmp_path, bad):
    """Gone, forbidden, wrong bytes, wrong size, dead or busy: no waiting while another may have it."""
    outcome = run(tmp_path, {"a": bad, "m1/a": Reply(body=BODY)})
    assert [path for path, _, _ in asked(outcome)] == ["a", "m1/a"]
    assert (outcome.tree, outcome.elapsed_s) == ({"a": BODY}, 0.0)
    record = outcome.records["a"]
    assert (record.host, [t.mirror for t in record.attempts]) == ("m1.test", [None, "m1.test"])


def test_c23_wrong_bytes_everywhere_fail_loudly(tmp_path):
    """Each source is blamed once; nothing stands under the final name."""
    outcome = run(tmp_path, {"a": Reply(body=OTHER), "m1/a": Reply(body=OTHER), "m2/a": Reply(body=OTHER)})
    assert [path for path, _, _ in asked(outcome)] == ["a", "m1/a", "m2/a", "m2/a"]
    assert (outcome.statuses, outcome.tree, outcome.parts) == (["failed"], {}, [])
    assert outcome.records["a"].error_kind == "corrupt"


def test_the_last_source_has_as_many_tries_as_the_only_one(tmp_path):
    """Sources that were wrong for good cost no tries."""
    scripts = {"a": Reply(status=404), "m1/a": [Reply(status=500), Reply(status=500), Reply(body=BODY)]}
    outcome = run(tmp_path, scripts, max_attempts=3)
    assert outcome.statuses == ["done"]
    assert run(tmp_path, scripts, max_attempts=2).statuses == ["failed"]


def test_with_a_hash_the_mirror_goes_on_where_the_other_broke_off(tmp_path):
    """No If-Range: an ETag of one server says nothing at another."""
    outcome = run(tmp_path, {"a": Reply(body=BODY, cut=1000, then="reset"), "m1/a": Reply(body=BODY)})
    assert asked(outcome) == [("a", None, None), ("m1/a", "bytes=1000-", None)]
    assert outcome.tree == {"a": BODY}


@pytest.mark.parametrize("other_etag", ['"v1"', '"v2"'])
def test_without_a_hash_the_mirror_begins_anew(tmp_path, other_etag):
    """Even an equal ETag joins no bytes of two servers."""
    scripts = {
        "a": [Reply(body=OTHER, cut=1000, then="reset"), Reply(status=500)],
        "m1/a": Reply(body=BODY, etag=other_etag),
    }
    outcome = run(tmp_path, scripts, mirrored(0, "a", digest=False))
    assert [a for a in asked(outcome) if a[0] == "m1/a"] == [("m1/a", None, None)]
    assert outcome.tree == {"a": BODY}


def test_a_mixture_that_a_lying_mirror_makes_is_found_out(tmp_path):
    """Joined under the hash, blamed, fetched anew."""
    scripts = {"a": Reply(body=BODY, cut=1000, then="reset"), "m1/a": Reply(body=OTHER)}
    outcome = run(tmp_path, scripts)
    assert asked(outcome)[:2] == [("a", None, None), ("m1/a", "bytes=1000-", None)]
    assert outcome.tree in ({}, {"a": BODY})
    assert outcome.records["a"].error_kind in (None, "corrupt", "transient")


@pytest.mark.parametrize(("digest", "then"), [(True, "m1/slow"), (False, "slow")])
def test_a_straggler_goes_on_at_a_mirror_if_its_bytes_may(tmp_path, digest, then):
    """With the hash elsewhere; without it on a fresh connection to the same source, bytes kept."""
    scripts: dict[str, object] = {str(i): Reply(body=BODY) for i in range(9)}
    scripts["slow"] = [Reply(body=BODY, rate_bps=len(BODY) / 100), Reply(body=BODY)]
    scripts["m1/slow"] = Reply(body=BODY)
    entries = [entry_of(i, str(i), BODY) for i in range(9)] + [mirrored(9, "slow", digest=digest)]
    outcome = drive(tmp_path, scripts, entries, padding=6.0)
    (told,) = outcome.cancelled
    first, second = [a for a in outcome.transport.opens if a.path.endswith("slow")]
    assert (first.path, second.path) == ("slow", then)
    assert second.range == f"bytes={told.kept_bytes}-"
    assert told.kept_bytes > 0
    assert outcome.tree["slow"] == BODY


def test_the_fastest_measured_mirror_is_the_first_to_help(tmp_path):
    """Once the second mirror has shown its speed, it comes before the first."""
    slow, fast = Reply(body=BODY, rate_bps=1e5), Reply(body=BODY, rate_bps=1e7)
    scripts: dict[str, object] = {}
    entries = []
    for n in range(6):
        first_is_gone = n == 1
        scripts |= {f"{n}": Reply(status=404), f"m1/{n}": slow, f"m2/{n}": fast}
        if first_is_gone:
            scripts["m1/1"] = Reply(status=404)
        entries.append(mirrored(n, str(n), count=2))
    outcome = drive(tmp_path, scripts, entries, concurrency=1, mitigation=False)
    hosts = [outcome.records[str(n)].host for n in range(6)]
    assert hosts == ["m1.test", "m2.test", "m2.test", "m2.test", "m2.test", "m2.test"]


def test_the_own_url_is_asked_first_where_one_try_is_left(tmp_path):
    """A mirror that is known to be faster may hold another version: with a single try that is the end."""
    slow, fast = Reply(body=BODY, rate_bps=1e5), Reply(body=BODY, rate_bps=1e7)
    scripts = {"0": slow, "1": fast, "2": slow, "m1/2": Reply(body=BODY, cut=1000, framing="chunked")}
    entries = [entry_of(0, "0", BODY), entry_of(1, "1", BODY, host="m1.test"), mirrored(2, "2", digest=False)]
    settings = {"concurrency": 1, "mitigation": False}
    outcome = drive(tmp_path, scripts, entries, max_attempts=1, **settings)
    assert outcome.records["2"].host == "origin.test"
    outcome = drive(tmp_path, scripts, entries, max_attempts=3, **settings)
    assert [attempt.mirror for attempt in outcome.records["2"].attempts] == ["m1.test", None]


@pytest.mark.parametrize("tries", [1, 2])
def test_the_own_url_has_a_try_though_mirrors_have_used_them_up(tmp_path, tries):
    """They were asked first, as the own host was busy; and they have another version for good."""
    slow, wrong = Reply(body=BODY, rate_bps=1e5), Reply(body=BODY, cut=1000, framing="chunked")
    scripts = {"0": slow, "1": slow, "m1/1": wrong}
    entries = [entry_of(0, "0", BODY), mirrored(1, "1", digest=False)]
    outcome = drive(
        tmp_path, scripts, entries, max_attempts=tries, concurrency=2, per_host=1, mitigation=False
    )
    assert outcome.tree == {"0": BODY, "1": BODY}
    assert [attempt.mirror for attempt in outcome.records["1"].attempts] == ["m1.test", None]


def test_a_source_that_nobody_has_asked_is_waited_for_before_the_tries_are_used_up(tmp_path):
    """Its host is busy for a second, and the source that is free fails each time."""
    scripts = {"b": Reply(body=BODY, rate_bps=len(BODY)), "m1/a": Reply(status=500)}
    scripts |= {"a": Reply(status=404), "m2/a": Reply(body=BODY)}
    first = entry_of(0, "b", BODY, host="m2.test")
    settings = {"concurrency": 2, "per_host": 1, "mitigation": False, "max_attempts": 2}
    outcome = drive(tmp_path, scripts, [first, mirrored(1, "a", count=2)], **settings)
    asked_of = [attempt.mirror for attempt in outcome.records["a"].attempts]
    assert (outcome.tree, asked_of) == ({"b": BODY, "a": BODY}, [None, "m1.test", "m2.test"])


def test_no_try_is_thrown_at_a_failing_source_while_the_other_is_busy(tmp_path):
    """The back-off holds: with eight tries, one at most is spent in a second."""
    scripts = {"b": Reply(body=BODY, rate_bps=len(BODY)), "a": Reply(status=500), "m1/a": Reply(body=BODY)}
    first = entry_of(0, "b", BODY, host="m1.test")
    settings = {"concurrency": 2, "per_host": 1, "mitigation": False, "max_attempts": 8}
    outcome = drive(tmp_path, scripts, [first, mirrored(1, "a")], **settings)
    attempts = outcome.records["a"].attempts
    assert (attempts[-1].mirror, outcome.statuses) == ("m1.test", ["done"] * 2)
    assert [attempt.mirror for attempt in attempts[:-1]] == [None] * (len(attempts) - 1)
    assert 1 < len(attempts) <= 4


def test_c57_headers_of_the_manifest_do_not_go_to_a_mirror_of_another_origin(tmp_path):
    """Nor those of the entry; a mirror of the same origin gets them."""
    entry = mirrored(0, "a", headers={"X-Key": "own"})
    near = SecretUrl("http://origin.test/near/a")
    entry = type(entry)(**{f: getattr(entry, f) for f in entry.__struct_fields__} | {
        "mirrors": (near, *entry.mirrors)
    })  # fmt: skip
    gone = Reply(status=404)
    scripts = {"a": gone, "near/a": gone, "m1/a": Reply(body=BODY)}
    outcome = drive(tmp_path, scripts, [entry], headers=(("X-All", SecretText("all")),))
    assert [(a.path, sorted(a.secrets)) for a in outcome.transport.opens] == [
        ("a", ["X-All", "X-Key"]),
        ("near/a", ["X-All", "X-Key"]),
        ("m1/a", []),
    ]


def test_a_held_host_does_not_keep_entries_from_their_mirrors(tmp_path):
    """Those that have none wait; the others start at once."""
    busy = Reply(status=503, headers={"Retry-After": "50"})
    scripts: dict[str, object] = {"x": [busy, Reply(body=BODY)], "y": [Reply(body=BODY)]}
    scripts |= {"z": Reply(body=BODY), "m1/z": Reply(body=BODY)}
    entries = [entry_of(0, "x", BODY), mirrored(1, "z"), entry_of(2, "y", BODY)]
    outcome = drive(tmp_path, scripts, entries, concurrency=1)
    times = {a.path: a.t_s for a in outcome.transport.opens}
    assert times["m1/z"] == 0.0
    assert times["y"] == pytest.approx(50.0, abs=0.002)
    assert outcome.statuses == ["done"] * 3


def test_bytes_of_a_lying_mirror_are_not_the_good_sources_fault(tmp_path):
    """It went on with them and the hash failed: it is asked for the whole before anybody is blamed."""
    good = [Reply(error=Transient("reset")), Reply(body=BODY)]
    outcome = run(tmp_path, {"a": good, "m1/a": [Reply(body=OTHER, cut=100_000), Reply(status=500)]})
    assert asked(outcome) == [
        ("a", None, None),
        ("m1/a", None, None),
        ("a", "bytes=100000-", None),
        ("a", None, None),
    ]
    assert outcome.tree == {"a": BODY}


def test_a_place_at_the_mirror_is_taken_as_soon_as_it_is_free(tmp_path):
    """The own host is busy for 100 s more, the mirror's for ten: then the entry begins, there."""
    long, short = BODY * 2, BODY + b"x"
    scripts = {
        "a": Reply(body=long, rate_bps=len(long) / 100),
        "c": Reply(body=short, rate_bps=len(short) / 10),
        "b": Reply(body=BODY),
        "m1/b": Reply(body=BODY),
    }
    entries = [
        entry_of(0, "a", long, digest=True),
        entry_of(1, "c", short, digest=True, host="m1.test"),
        mirrored(2, "b"),
    ]
    outcome = drive(tmp_path, scripts, entries, per_host=1, mitigation=False)
    assert outcome.tree == {"a": long, "b": BODY, "c": short}
    assert [(asked.path, asked.t_s) for asked in outcome.transport.opens] == [
        ("a", 0.0),
        ("c", 0.0),
        ("m1/b", pytest.approx(10.0)),
    ]
