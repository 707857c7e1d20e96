"""``--rate``: each host is asked so often a second and no more, and nobody is kept from another host."""

from urllib.parse import urlsplit

import pytest

from cfetch.base.config.settings import KINDS, Settings
from cfetch.tasks.shares.task import divide_limits
from cfetch.wire.request_pace import LATE_S, RequestPace
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = b"x" * 2000


def asked_s(outcome, host):
    """When the host was asked."""
    return [asked.t_s for asked in outcome.transport.opens if urlsplit(asked.url).netloc == host]


def test_no_host_is_asked_more_often(tmp_path):
    """Sixteen workers, two hosts, one file that fails at first: five a second at each, for retries too."""
    names = [f"{host}{number}" for number in range(20) for host in "ab"]
    scripts: dict[str, Reply | list[Reply]] = {name: Reply(BODY, latency_s=0.01) for name in names}
    scripts["a3"] = [Reply(status=503), Reply(BODY)]
    entries = [entry_of(number, name, BODY, host=f"{name[0]}.test") for number, name in enumerate(names)]
    outcome = drive(tmp_path, scripts, entries, rate=5.0)
    assert outcome.statuses == ["done"] * 40
    for host, requests in (("a.test", 21), ("b.test", 20)):
        times = asked_s(outcome, host)
        assert len(times) == requests
        for first, at_s in enumerate(times):
            within = sum(at_s <= other_s < at_s + 0.99 for other_s in times[first:])
            assert within <= 5
    assert asked_s(outcome, "b.test")[-1] == pytest.approx(19 / 5, abs=0.2)
    assert outcome.flagged == []


def test_late_timers_are_made_up_for_and_no_more():
    """After a long silence the next requests are as far apart as ever."""
    pace = RequestPace(10.0)
    for at_s, due_s in ((0.0, 0.1), (0.15, 0.2), (60.0, 60.1), (60.1 + 2 * LATE_S, 60.4)):
        pace.note_request("h", at_s)
        assert pace.opens_s("h") == pytest.approx(due_s)
    assert pace.opens_s("other") < 0


@pytest.mark.parametrize(
    ("text", "per_s"), [("5/s", 5.0), ("30/m", 0.5), ("90/min", 1.5), ("36/h", 0.01), ("2", 2)]
)
def test_it_is_written_in_the_usual_units(text, per_s):
    """And shown in requests a second."""
    kind = KINDS["rate"]
    assert kind.parse(text) == pytest.approx(per_s)
    assert kind.parse(kind.show(kind.parse(text))) == pytest.approx(per_s)


def test_tasks_that_ask_the_same_host_share_the_rate():
    """Each has its part, and one without a limit still has none."""
    assert divide_limits(Settings(rate=5.0), 4, 8).rate == pytest.approx(1.25)
    assert divide_limits(Settings(), 4, 8).rate is None
