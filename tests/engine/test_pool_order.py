"""In which order a run's entries start, on one host and on several. On virtual time."""

import pytest

from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = bytes(range(256)) * 400  # 100 KiB


def test_largest_first_and_unknown_before_all(tmp_path):
    """The order of starts with one slot."""
    scripts = {name: Reply(body=BODY[:n]) for name, n in (("s", 10), ("l", 999), ("u", 50), ("m", 500))}
    entries = [entry_of(i, p, r.body, size=p != "u") for i, (p, r) in enumerate(scripts.items())]
    outcome = drive(tmp_path, scripts, entries, concurrency=1)
    assert [a.path for a in outcome.transport.opens] == ["u", "l", "m", "s"]


def test_a_host_at_its_cap_does_not_hold_up_another(tmp_path):
    """With two slots per host, four workers serve two hosts at once."""
    scripts = {f"{h}{i}": Reply(body=BODY, latency_s=1.0) for h in "xy" for i in range(4)}
    entries = [entry_of(i, p, BODY, host=f"{p[0]}.test") for i, p in enumerate(scripts)]
    outcome = drive(tmp_path, scripts, entries, concurrency=8, per_host=2)
    assert outcome.elapsed_s == pytest.approx(2.0)
    assert outcome.transport.most == 4
    assert outcome.statuses == ["done"] * 8
