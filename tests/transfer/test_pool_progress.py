"""Limits that progress resets, truth about lengths, and silence that is our own."""

from typing import Any

import pytest

from cfetch.clock import VirtualClock, run_virtual
from cfetch.errors import Transient
from cfetch.secret import SecretUrl
from cfetch.transfer.document import SILENCE_S, fetch_document
from tests.transfer.drive import drive, entry_of
from tests.transfer.fake import FakeTransport, Reply

BODY = bytes(range(256)) * 4000


def test_progress_renews_tries_and_budget(tmp_path):
    """A large file over a line that breaks ever so often arrives, however often that is."""
    cut = Reply(body=BODY, cut=100_000, then="reset", rate_bps=1000)
    scripts = {"a": [cut] * 10 + [Reply(body=BODY)]}
    outcome = drive(tmp_path, scripts, max_attempts=3, retry_budget=60.0, mitigation=False)
    assert outcome.statuses == ["done"]
    assert outcome.tree == {"a": BODY}
    assert len(outcome.transport.opens) == 11


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
