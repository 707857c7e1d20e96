"""What set the end of a run, for ends that were made up, and the words for it."""

import msgspec
import pytest

from cfetch.base.records import EventRecord, Summary, Tail
from cfetch.show.digest import make_digest
from cfetch.show.ending import BOUNDS, LEARNED, Ending, RunLimits, find_tail
from cfetch.show.ending_text import ADVICE, MitigationSetup, explain_tail, find_advice
from cfetch.show.remedies import REMEDIES, find_remedy
from tests.show.records import MIB, attempt, record

LIMITS = RunLimits("adaptive", 4, None, None, None)


def tail_of(*records, limits=LIMITS, elapsed_s=None, events=(), stopped=None):
    ending = Ending()
    for entry in records:
        ending.add(entry)
    for event in events:
        ending.note(event)
    last_s = max((entry.end_s for entry in records), default=0.0)
    return ending.tail(limits, last_s if elapsed_s is None else elapsed_s, stopped=stopped)


def wave(seconds, *, slots=4, host="h", first=0, **more):
    """Files of a second each and of a MiB, on all slots until ``seconds``."""
    return [
        record(first + slots * t + n, MIB, attempt(1, float(t), t + 1.0, size=MIB, **more), host=host)
        for t in range(seconds)
        for n in range(slots)
    ]


def test_a_slow_file_alone():
    """Ten seconds on four slots, then twelve more for one file, on its third fresh connection."""
    slow = record(
        99,
        22 * 40 * 1024,
        *(attempt(n, 4.0 * n, 4.0 * n + 4.0, size=160 * 1024, outcome="straggler") for n in range(3)),
        attempt(4, 12.0, 22.0, size=400 * 1024),
        path="a/slow",
    )
    tail = tail_of(*wave(10, slots=3), slow)
    assert (tail.bound, tail.path, tail.host, tail.files, tail.fresh) == ("slow file", "a/slow", "h", 1, 3)
    assert (tail.seconds, tail.idle_places) == (12.0, 3.0)
    assert (tail.rate_bps, tail.usual_bps) == (pytest.approx(40 * 1024, rel=0.01), MIB)
    assert explain_tail(tail, MitigationSetup("adaptive", {})) == [
        "the last 12s went to one file at 40.0 KiB/s: a/slow",
        "slow itself: 3 fresh connections were no faster; 1.0 MiB/s is usual there",
        "to change that: a mirror of the file in the manifest",
    ]


def test_a_slow_file_that_several_connections_brought():
    """Each is slow, so more of them are faster; one that had just begun says nothing."""
    own = attempt(1, 0.0, 22.0, size=MIB // 2)
    helpers = [
        attempt(2, 12.0, 22.0, size=MIB // 4, helper=True),
        attempt(3, 21.9, 22.0, size=0, helper=True),
        attempt(4, 12.0, 22.0, size=4 * MIB, helper=True),
    ]
    tail = tail_of(*wave(10, slots=3), record(99, 5 * MIB, own, *helpers))
    assert (tail.bound, tail.fresh, tail.helpers, tail.at_once) == ("slow file", 1, 3, 4)


@pytest.mark.parametrize(
    ("policy", "option"), [("none", "--mitigation"), ("cloudfetch", "--policy adaptive")]
)
def test_a_slow_file_that_nobody_rescued(policy, option):
    """The advice is the policy that would have."""
    slow = record(99, MIB, attempt(1, 0.0, 22.0, size=MIB))
    tail = tail_of(*wave(10, slots=3), slow)
    assert (tail.bound, tail.fresh) == ("slow file", 0)
    assert option in explain_tail(tail, MitigationSetup(policy, {}))[-1]


def test_a_large_file_alone():
    """It came at its host's usual rate; there was just more of it."""
    tail = tail_of(*wave(10, slots=3), record(99, 22 * MIB, attempt(1, 0.0, 22.0, size=22 * MIB)))
    assert (tail.bound, tail.seconds, tail.rate_bps) == ("large file", 12.0, MIB)
    what, why = explain_tail(tail, MitigationSetup("adaptive", {}))
    assert what == "the last 12s went to one file at 1.0 MiB/s: a/99"
    assert why == "it is 22.0 MiB, and 3 slots were idle"
    assert "--policy adaptive" in explain_tail(tail, MitigationSetup("cloudfetch", {}))[-1]
    unknown = msgspec.structs.replace(tail, size_bytes=None)
    assert explain_tail(unknown, MitigationSetup("adaptive", {}))[1] == "3 slots were idle"
    small = record(99, 100, attempt(1, 0.0, 22.0, size=100), size_bytes=None)
    assert explain_tail(tail_of(small), MitigationSetup("adaptive", {}))[1:] == [
        "it is 100 B, and 3 slots were idle"
    ]


def test_files_that_waited_for_the_first_answer_of_their_host():
    """The last one was tried once, and at once after the first: it did not wait to be tried again."""
    first = record(0, MIB, attempt(1, 0.1, 5.0, size=MIB))
    others = [record(n, 100, attempt(1, 5.0, 5.1, size=100)) for n in (1, 2)]
    tail = tail_of(first, *others)
    assert (tail.bound, tail.path) == ("large file", "a/0")
    assert "tried again" not in " ".join(explain_tail(tail, MitigationSetup("adaptive", {})))


def test_a_file_of_which_nothing_came_gets_no_advice():
    """More connections would not have brought it."""
    tail = Tail(bound="large file", seconds=10.0, path="a", files=1, rate_bps=0.0, idle_places=15)
    assert explain_tail(tail, MitigationSetup("adaptive", {})) == [
        "the last 10s went to one file at 0 B/s: a",
        "15 slots were idle",
    ]


def test_a_file_in_place_about_which_its_server_was_asked_has_no_rate():
    """A mirror of which one small file was new ended with a file «at 0 B/s», and «101 B/s is usual there»."""
    asked = record(99, MIB, attempt(1, 10.0, 22.0, size=0), status="skipped")
    assert tail_of(*wave(10, slots=3), asked) == Tail()


def test_a_large_file_alone_at_the_stated_limit():
    """More connections would bring nothing: the limit is named, not the idle slots."""
    large = record(99, 22 * MIB, attempt(1, 0.0, 22.0, size=22 * MIB))
    assert tail_of(large, limits=LIMITS._replace(rate_bps=MIB)).bound == "rate limit"
    assert tail_of(large, limits=LIMITS._replace(rate_bps=2 * MIB)).bound == "large file"


def test_few_large_files_that_begin_together_did_not_wait_for_a_slot():
    """Half of the slots are never used."""
    files = [record(n, 9 * MIB, attempt(1, n / 100, 9.0, size=9 * MIB)) for n in range(2)]
    assert tail_of(*files).bound == "large file"


@pytest.mark.parametrize(
    ("events", "bound"),
    [((), "retry"), ([EventRecord(kind="pause", t_s=10.0, host="h", seconds=9.0)], "pause")],
)
def test_a_wait_for_the_next_try(events, bound):
    """Nine seconds of the last ten nothing was under way."""
    failed = attempt(1, 9.0, 10.0, size=0, outcome="error", error="HTTP 503")
    tail = tail_of(*wave(10), record(99, MIB, failed, attempt(2, 19.0, 20.0, size=MIB)), events=events)
    assert (tail.bound, tail.id, tail.reason) == (bound, 99, "HTTP 503")
    words = explain_tail(tail, MitigationSetup("adaptive", {}))
    assert ("HTTP 503" in words[1]) == (bound == "retry")


def test_bytes_that_had_come_were_being_flushed():
    """The last byte was here after ten seconds, the run's end three later."""
    tail = tail_of(*wave(10), elapsed_s=13.0)
    assert (tail.bound, tail.seconds, tail.volume) == ("flush", 3.0, "/v")
    assert "--durability crash" in explain_tail(tail, MitigationSetup("adaptive", {}))[-1]


def test_entries_that_wait_for_a_host():
    """Two slots of sixteen are busy all the time, since the host has no more."""
    tail = tail_of(*wave(10, slots=2), limits=LIMITS._replace(slots=16, per_host=2))
    assert (tail.bound, tail.limit, tail.host) == ("host limit", 2, "h")
    assert "--per-host" in explain_tail(tail, MitigationSetup("adaptive", {}))[-1]


def test_files_of_another_host_did_not_wait_for_this_one():
    """Nothing answers at the last file's host; that it "got 1 at a time" was said of it."""
    tries = [attempt(n, 2.0 * n, 2.0 * n, size=0, outcome="error", error="no answer") for n in range(5)]
    last = record(9, 9, *tries, status="failed", host="g")
    others = [record(n, MIB, attempt(1, 1.0 + n, 1.5 + n, size=MIB)) for n in range(4)]
    tail = tail_of(last, *others, elapsed_s=8.0)
    assert (tail.bound, tail.host, tail.reason) == ("retry", "g", "no answer")


def test_a_host_with_most_of_the_slots():
    """It is busy to the end, and so are all the slots that it has."""
    tail = tail_of(*wave(10, slots=3), limits=LIMITS._replace(per_host=3))
    assert (tail.bound, tail.limit) == ("host limit", 3)


def test_a_host_that_was_narrowed():
    """There is no option to change that."""
    event = EventRecord(kind="width", t_s=1.0, host="h", places=3, before=4)
    tail = tail_of(*wave(10, slots=3), events=[event])
    assert (tail.bound, tail.limit) == ("host limit", 3)
    assert explain_tail(tail, MitigationSetup("adaptive", {"h": 3}))[0] == "h got 3 at a time"


@pytest.mark.parametrize(
    ("per_host", "narrow", "advises"), [(None, None, False), (2, None, True), (16, 2, False)]
)
def test_a_higher_per_host_is_advised_only_where_it_was_the_limit(per_host, narrow, advises):
    """Not where the run has learned how few a host bears."""
    events = [EventRecord(kind="width", t_s=1.0, host="h", places=narrow, before=16)] if narrow else []
    limits = LIMITS._replace(slots=16, per_host=per_host)
    tail = tail_of(*wave(10, slots=2), limits=limits, events=events)
    words = explain_tail(tail, MitigationSetup("adaptive", {}))
    assert (tail.limit, "--per-host" in words[-1]) == (2, advises)


def test_the_latest_files_of_many_tasks_do_not_say_how_many_were_busy():
    """Each task reports only few of them."""
    ending, files = Ending(), wave(20, slots=4)
    ending.include(make_digest(files, slots=1))
    ending.note(EventRecord(kind="width", t_s=1.0, host="h", places=4, before=16))
    tail = ending.tail(LIMITS._replace(slots=16), 20.0)
    assert (tail.bound, tail.limit, tail.reason) == ("host limit", 4, LEARNED)


@pytest.mark.parametrize(("total", "host"), [(4 * MIB, None), (None, 4 * MIB)])
def test_a_rate_limit_that_is_reached(total, host):
    """Four files of a MiB a second; which option it was is said."""
    limits = LIMITS._replace(rate_bps=total, host_rate_bps=host)
    tail = tail_of(*wave(10), limits=limits)
    assert (tail.bound, tail.limit) == ("rate limit", 4 * MIB)
    assert ("--limit-rate-per-host" in explain_tail(tail, MitigationSetup("", {}))[0]) == (host is not None)


def test_a_disk_that_does_not_keep_up():
    """Half of the time attempts waited for it."""
    assert tail_of(*wave(10, held_s=0.6)).bound == "disk"
    assert tail_of(*wave(10, held_s=0.1)).bound == "places"


def test_a_host_that_throttled():
    """Three seconds of ten, in several pauses."""
    events = [EventRecord(kind="pause", t_s=float(t), host="h", seconds=1.0) for t in range(3)]
    tail = tail_of(*wave(10), events=events)
    assert (tail.bound, tail.seconds, tail.host) == ("pause", 3.0, "h")


def test_all_slots_were_busy():
    """More at a time may be faster."""
    tail = tail_of(*wave(10))
    assert (tail.bound, tail.limit) == ("places", 4)
    assert "--concurrency 8" in explain_tail(tail, MitigationSetup("adaptive", {}))[-1]
    assert "too short to try" in explain_tail(tail, MitigationSetup("adaptive", {}, 64))[-1]
    assert "--max-concurrency 8" in explain_tail(tail, MitigationSetup("adaptive", {}, 4))[-1]


def test_a_run_that_got_more_slots():
    """All of them were busy, and not those only with which it began."""
    event = EventRecord(kind="width", t_s=1.0, host="h", places=8, before=4)
    tail = tail_of(*wave(10, slots=8), events=[event])
    assert (tail.bound, tail.limit) == ("places", 8)


def test_nothing_stands_out():
    """Without entries, or in a run that was short."""
    assert tail_of() == Tail()
    short = record(0, MIB, attempt(1, 0.0, 0.2, size=MIB))
    assert tail_of(short) == Tail()
    assert explain_tail(Tail(), MitigationSetup("adaptive", {})) == []
    assert explain_tail(Tail(bound="of a later version"), MitigationSetup("", {})) == []


def test_a_run_that_was_stopped():
    """Whatever else was slow."""
    assert tail_of(*wave(10), stopped="SIGINT") == Tail(bound="stopped", reason="SIGINT")


def test_the_tail_begins_when_half_of_the_slots_were_last_busy():
    """Three of four until 2 s, two until 3 s, one until 9 s."""
    spans = [(0.0, 2.0), (0.0, 3.0), (0.0, 9.0)]
    records = [record(n, 1, attempt(1, *span)) for n, span in enumerate(spans)]
    assert find_tail(records, 4) == 2.0
    assert find_tail(records, 8) == 0.0


def test_only_the_latest_entries_are_kept():
    """Memory is bounded, and the end is found all the same."""
    ending = Ending()
    for entry in wave(600):
        ending.add(entry)
    ending.add(record(9999, 22 * MIB, attempt(1, 590.0, 700.0, size=110 * MIB)))
    tail = ending.tail(LIMITS, 700.0)
    assert (tail.bound, tail.seconds, len(ending._kept) < 2048) == ("large file", 100.0, True)


CAME = {"path": "a", "files": 1, "rate_bps": 9.0, "usual_bps": 99.0, "size_bytes": 9 * MIB, "seconds": 9.0}
ALL_USED = {"helpers": 15, "at_once": 16, "segments": 16}
ADVISED = [  # the row of the table, a tail, a setup, and the advice
    ("flush", {"bound": "flush", "volume": "/v"}, ("adaptive", 0), "--durability crash"),
    ("pause", {"bound": "pause", "host": "h"}, ("adaptive", 0), "a lower --per-host"),
    (
        "slow on every connection, of which there could be more",
        {"bound": "slow file", **CAME, **ALL_USED, "fresh": 2},
        ("adaptive", 0),
        "--segments 32",
    ),
    ("slow on every connection", {"bound": "slow file", **CAME, "fresh": 2}, ("adaptive", 0), "a mirror"),
    ("slow without mitigation", {"bound": "slow file", **CAME}, ("none", 0), "--mitigation tries"),
    ("slow under policy cloudfetch", {"bound": "slow file", **CAME}, ("cloudfetch", 0), "--policy adaptive"),
    (
        "large, on all connections that it could have",
        {"bound": "large file", **CAME, **ALL_USED},
        ("adaptive", 0),
        "--segments 32",
    ),
    (
        "large under a policy without segments",
        {"bound": "large file", **CAME},
        ("cloudfetch", 0),
        "--policy adaptive",
    ),
    (
        "large under a policy without segments",
        {"bound": "large file", **CAME, "segments": 1},
        ("none", 0),
        "--mitigation with --segments 16",
    ),
    ("host limit", {"bound": "host limit", "host": "h", "limit": 2}, ("adaptive", 0), "a higher --per-host"),
    ("rate limit", {"bound": "rate limit", "limit": 9}, ("adaptive", 0), "a higher --limit-rate"),
    ("request rate", {"bound": "request rate", "host": "h"}, ("adaptive", 0), "a higher --rate"),
    ("disk with flushes", {"bound": "disk"}, ("adaptive", 0), "or --durability crash"),
    (
        "disk without flushes",
        {"bound": "disk", "flushes": False},
        ("adaptive", 0),
        "more volumes (--to, several",
    ),
    ("places", {"bound": "places", "limit": 64}, ("adaptive", 64), "--max-concurrency 128"),
]


@pytest.mark.parametrize(
    ("name", "tail", "setup", "words"),
    ADVISED,
)
def test_each_row_of_the_table_advises_what_would_have_helped(name, tail, setup, words):
    """The row that counts is the one that the end asks for, and its words are the last line."""
    policy, most = setup
    found = find_advice(Tail(**tail), MitigationSetup(policy, {}, most))
    assert found is not None
    assert found.name == name
    last = explain_tail(Tail(**tail), MitigationSetup(policy, {}, most))[-1]
    assert last.startswith("to change that: ")
    assert words in last


def test_the_table_of_advice_has_no_row_without_a_test():
    """A new row needs a case above."""
    assert {row.name for row in ADVICE} == {name for name, *_ in ADVISED}


@pytest.mark.parametrize(
    ("tail", "policy"),
    [
        ({"bound": "flush", "flushes": False}, "adaptive"),
        ({"bound": "retry", **CAME}, "adaptive"),
        ({"bound": "slow file", **CAME, "fresh": 2, "failed": "corrupt"}, "adaptive"),
        ({"bound": "slow file", **CAME, "failed": "refused"}, "none"),
        ({"bound": "slow file", **CAME}, "adaptive"),
        ({"bound": "large file", **CAME, **ALL_USED, "failed": "corrupt"}, "adaptive"),
        ({"bound": "large file", **CAME, "helpers": 1, "at_once": 2, "segments": 16}, "adaptive"),
        ({"bound": "large file", **CAME, **ALL_USED, "size_bytes": 100}, "adaptive"),
        ({"bound": "large file", **CAME, "failed": "expired"}, "cloudfetch"),
        ({"bound": "host limit", "host": "h", "limit": 2, "reason": LEARNED}, "adaptive"),
    ],
)
def test_where_nothing_would_have_helped_nothing_is_advised(tail, policy):
    """Not for a file that failed, nor an option that the run had used, or had not used up."""
    assert find_advice(Tail(**tail), MitigationSetup(policy, {})) is None
    assert "to change that" not in " ".join(explain_tail(Tail(**tail), MitigationSetup(policy, {})))


def test_a_last_file_that_failed_says_why_and_gets_no_advice():
    """More connections do not mend a wrong hash."""
    attempts = [attempt(n, 0.0, 22.0, size=11 * MIB, helper=n > 1) for n in (1, 2)]
    failed = record(99, 22 * MIB, *attempts, status="failed", error_kind="corrupt")
    tail = tail_of(*wave(10, slots=3), failed, limits=LIMITS._replace(segments=2))
    assert (tail.failed, tail.at_once, tail.segments) == ("corrupt", 2, 2)
    assert find_advice(tail, MitigationSetup("adaptive", {})) is None


@pytest.mark.parametrize(
    ("failures", "steps"),
    [
        ([("expired", 403), ("refused", 401)], ["log in"]),
        ([("refused", 404)], ["correct the links"]),
        ([("corrupt", 200), ("blocked", None)], ["correct the links", "move away"]),
        ([("refused", 403), ("corrupt", 200)], ["log in", "correct the links"]),
        ([("refused", 404), ("transient", 500)], ["correct the links of what is not there"]),
        ([("transient", 500)] * 3 + [("blocked", None)] * 2 + [("refused", 404)], ["move away"]),
        ([("refused", 404)] * 2 + [("blocked", None)] * 3 + [("corrupt", 200)], ["move", "of what"]),
        ([("expired", 410)], []),
        ([], []),
    ],
)
def test_what_has_to_be_done_before_the_command_is_repeated(failures, steps):
    """The two kinds of most failures name their steps; a kind that may pass by itself needs none."""
    failed = [
        Summary.Failure(id=n, path="a", kind=kind, message="m", http_status=status)
        for n, (kind, status) in enumerate(failures)
    ]
    remedy = find_remedy(failed)
    assert [step in remedy for step in steps] == [True] * len(steps)
    assert len(list(filter(None, remedy.split(", and ")))) == len(steps)
    assert {step for row in REMEDIES for step in (row.step,)} >= {*remedy.split(", and ")} - {""}


@pytest.mark.parametrize(
    ("message", "step"),
    [
        ("cannot connect: Connection refused; gave up after 5 tries", "check the host and the port"),
        ("cannot connect: IPv6: Connection refused; IPv4: Connection refused", "check the host and the port"),
        ("cannot connect to the proxy: Connection refused", "check the address of the proxy"),
        ("the TLS handshake failed: the server's port speaks no TLS", "write http:// in place of https://"),
        ("the connection broke: Connection reset by peer", ""),
    ],
)
def test_a_fault_of_the_network_names_what_to_check_if_a_repetition_will_not_help(message, step):
    """A wrong port, proxy or scheme stays wrong."""
    failure = Summary.Failure(id=0, path="a", kind="transient", message=message)
    assert find_remedy([failure]).startswith(step)
    assert bool(find_remedy([failure])) == bool(step)


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_has_words(bound):
    """But for those that need none; names are printable."""
    tail = Tail(bound=bound, path="a\x1b", host="h\x1b", volume="/v\x1b", reason="r\x1b", limit=3)
    words = "".join(explain_tail(tail, MitigationSetup("adaptive", {})))
    assert bool(words) == (bound not in {"nothing", "stopped"})
    assert "\x1b" not in words


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, RunLimits("", 16, None, None, None)),
        ({"policy": "adaptive", "mitigation": False}, RunLimits("none", 16, None, None, None)),
        (
            {"policy": "adaptive", "per_host": 6, "limit_rate": 100, "limit_rate_per_host": None},
            RunLimits("adaptive", 16, 6, 100, None, 64),
        ),
        (
            {"policy": "adaptive", "max_concurrency": 32},
            RunLimits("adaptive", 16, None, None, None, 32),
        ),
        ({"policy": "cloudfetch", "max_concurrency": 64}, RunLimits("cloudfetch", 16, None, None, None)),
        ({"policy": 3, "per_host": "x", "limit_rate": -1}, RunLimits("", 16, None, None, None)),
    ],
)
def test_limits_of_a_run_header(settings, limits):
    """Other versions may have other settings."""
    assert RunLimits.of(settings, 16) == limits


@pytest.mark.parametrize(("per_s", "bound"), [(1.0, "request rate"), (2.0, "nothing"), (None, "nothing")])
def test_requests_as_often_as_the_rate_allows(per_s, bound):
    """The files between them waited for nothing but that."""
    files = [record(n, MIB, attempt(1, float(n), n + 0.1, size=MIB)) for n in range(12)]
    tail = tail_of(*files, limits=LIMITS._replace(slots=1, requests_per_s=per_s))
    assert tail.bound == bound
    if bound == "request rate":
        assert explain_tail(tail, MitigationSetup("adaptive", {})) == [
            "h was asked as often as --rate allows",
            "to change that: a higher --rate, if the host bears it",
        ]
