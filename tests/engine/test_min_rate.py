"""``--min-rate`` in the pool: a crawling attempt goes on over a fresh connection, a slow link is let be."""

import pytest

from cfetch.base.events import MinRateWaived
from tests.engine.drive import KIB, drive, entry_of
from tests.engine.fake import Reply

BODY = bytes(range(256)) * 4 * 100  # 100 KiB
CRAWLING = Reply(BODY, at_s=tuple(0.5 * n for n in range(1, 201)))  # 1 KiB a second, in small pieces
HEALTHY = Reply(BODY, rate_bps=50 * KIB)
POLICIES = [{"policy": "adaptive"}, {"policy": "cloudfetch"}, {"mitigation": False}]


@pytest.mark.parametrize("settings", POLICIES, ids=["adaptive", "cloudfetch", "no mitigation"])
def test_a_lone_file_that_crawls_is_asked_for_again(tmp_path, settings):
    """Whatever the policy: what has come is kept, the connection is fresh, and no try is spent."""
    outcome = drive(
        tmp_path, {"a": [CRAWLING, HEALTHY]}, min_rate=10 * KIB, max_attempts=1, segments=1, **settings
    )
    first, second = outcome.transport.of("a")
    assert outcome.tree == {"a": BODY}
    assert 5 < second.t_s < 6.5
    assert second.fresh
    assert not first.fresh
    assert int(second.range.removeprefix("bytes=").removesuffix("-")) >= 5 * KIB
    record = outcome.records["a"]
    assert [attempt.outcome for attempt in record.attempts] == ["straggler", "done"]
    assert record.attempts[0].error == "below min_rate, 10,240 bytes per second"
    assert record.attempts[0].expected_s == pytest.approx(10.0)
    assert record.attempts[0].projected_s == pytest.approx(100, rel=0.1)
    assert record.stragglers == 1


def test_without_the_option_a_lone_file_crawls_to_its_end(tmp_path):
    """Nothing is compared with it where no slot may help."""
    outcome = drive(tmp_path, {"a": [CRAWLING, HEALTHY]}, segments=1)
    assert len(outcome.transport.of("a")) == 1
    assert outcome.elapsed_s == pytest.approx(100, rel=0.05)


def test_idle_slots_ask_for_a_lone_file_elsewhere(tmp_path):
    """Small as it is, its first connection does not decide how long it takes."""
    outcome = drive(tmp_path, {"a": [CRAWLING, HEALTHY]})
    assert outcome.tree == {"a": BODY}
    assert outcome.elapsed_s < 12


def test_a_size_that_nobody_knows_is_no_excuse(tmp_path):
    """A chunked reply of unknown length is held to the rate too."""
    crawling = Reply(BODY, rate_bps=KIB, framing="chunked")
    healthy = Reply(BODY, rate_bps=50 * KIB, framing="chunked")
    entries = [entry_of(0, "a", BODY, size=False)]
    outcome = drive(tmp_path, {"a": [crawling, healthy]}, entries, min_rate=10 * KIB)
    assert outcome.tree == {"a": BODY}
    assert outcome.elapsed_s < 10


def test_a_link_that_is_slower_as_a_whole_does_not_loop(tmp_path):
    """Three fresh connections, then it goes on with a word about it, and the file comes."""
    outcome = drive(tmp_path, {"a": CRAWLING}, min_rate=10 * KIB, segments=1)
    assert outcome.tree == {"a": BODY}
    assert len(outcome.transport.of("a")) == 4
    (waived,) = outcome.of(MinRateWaived)
    assert (waived.path, waived.connections, waived.min_rate_bps) == ("a", 3, 10 * KIB)


def test_our_own_rate_limit_is_not_the_server_s(tmp_path):
    """Time in which we do not read does not count."""
    outcome = drive(tmp_path, {"a": HEALTHY}, min_rate=10 * KIB, limit_rate=2 * KIB)
    assert len(outcome.transport.of("a")) == 1


def test_a_try_whose_failure_would_be_the_last_is_not_cancelled(tmp_path):
    """A slow file is better than none: a fresh connection may be refused."""
    broken = Reply(BODY, cut=0, then="reset")
    outcome = drive(
        tmp_path, {"a": [broken, CRAWLING, broken]}, min_rate=10 * KIB, max_attempts=2, segments=1
    )
    assert outcome.tree == {"a": BODY}
    assert len(outcome.transport.of("a")) == 2
