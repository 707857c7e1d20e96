"""Links that end: renewed before, after a refusal, at most three times, and once for many."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.errors import LocalFault, ManifestError, Problem, Refused, Transient
from cfetch.base.events import UrlRefreshed
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.wire.fresh_link import Link
from cfetch.wire.refresh import REREAD_S, CommandRefresher, ManifestRefresher
from tests.engine.drive import ListPlan, drive, entry_of
from tests.engine.fake import FakeTransport, Reply

BODY = bytes(range(256)) * 100
NOW = VirtualClock()._epoch
CANARY = "sig=CANARY0123"


class Refresher:
    """Signs anew each time; ``errors`` come first."""

    def __init__(self, *errors, expires_in=None, headers=()):
        self.errors = list(errors)
        self.stale = []
        self.expires_in = expires_in
        self.headers = headers

    async def refresh(self, entry, stale):
        self.stale.append(stale.url.reveal())
        if self.errors:
            raise self.errors.pop(0)
        url = SecretUrl(f"http://origin.test/{entry.path}?{CANARY}&n={len(self.stale)}")
        expires_at = None if self.expires_in is None else NOW + self.expires_in
        return Link(url, expires_at, self.headers)


def one(tmp_path, script, refresher, expires_at=None, **settings):
    entry = entry_of(0, "a", BODY, expires_at=expires_at)
    return drive(tmp_path, {"a": script}, [entry], refresher=refresher, **settings)


@pytest.mark.parametrize("status", [401, 403])
def test_p11_a_refused_link_is_renewed_at_once(tmp_path, status):
    """One refresh, no delay, the new URL is asked, and the event's URL is redacted."""
    refresher = Refresher()
    outcome = one(tmp_path, [Reply(status=status), Reply(body=BODY)], refresher)
    assert len(refresher.stale) == 1
    assert outcome.transport.opens[1].url.endswith("&n=1")
    assert outcome.elapsed_s == 0
    assert outcome.statuses == ["done"]
    assert outcome.records["a"].attempts[0].outcome == "expired"
    (told,) = outcome.of(UrlRefreshed)
    assert told.reason == "expired"
    assert "CANARY" not in repr(outcome.events)


@pytest.mark.parametrize(("left_s", "refreshes"), [(60.0, 1), (60.5, 0), (-10.0, 1), (None, 0)])
def test_a_link_near_its_end_is_renewed_before_the_request(tmp_path, left_s, refreshes):
    """60 s before its end, so that it does not end on the way."""
    refresher = Refresher()
    expires_at = None if left_s is None else NOW + left_s
    outcome = one(tmp_path, Reply(body=BODY), refresher, expires_at)
    assert len(refresher.stale) == refreshes
    assert len(outcome.transport.opens) == 1
    assert outcome.statuses == ["done"]


def test_the_end_is_looked_at_before_every_try(tmp_path):
    """A link that runs out during a back-off is renewed before the next request."""
    refresher = Refresher()
    script = [Reply(status=503, headers={"Retry-After": "100"}), Reply(body=BODY)]
    outcome = one(tmp_path, script, refresher, NOW + 120)
    assert [("n=" in a.url) for a in outcome.transport.opens] == [False, True]


def test_a_renewal_before_the_end_that_fails_costs_nothing(tmp_path):
    """The old link may still do: clocks differ."""
    outcome = one(tmp_path, Reply(body=BODY), Refresher(Transient("busy")), NOW + 5)
    assert outcome.statuses == ["done"]
    assert outcome.last_progress.retries == 0


def test_a_fresh_link_is_not_renewed_for_another_reason(tmp_path):
    """A 503 after the refresh is a 503: the link stays."""
    refresher = Refresher()
    outcome = one(tmp_path, [Reply(status=403), Reply(status=503), Reply(body=BODY)], refresher)
    assert len(refresher.stale) == 1
    assert outcome.statuses == ["done"]


def test_three_fresh_links_are_the_limit(tmp_path):
    """A link that is refused three times fresh is revoked: four requests, then failed."""
    refresher = Refresher()
    outcome = one(tmp_path, Reply(status=403), refresher)
    assert (len(refresher.stale), len(outcome.transport.opens)) == (3, 4)
    assert outcome.records["a"].error == "HTTP 403; refused after 3 fresh links"
    assert outcome.records["a"].error_kind == "expired"


def test_a_source_of_links_that_says_no_ends_the_entry(tmp_path):
    """Its reason is the entry's."""
    outcome = one(tmp_path, Reply(status=403), Refresher(Refused("no such entry any more")))
    assert outcome.records["a"].error == "no such entry any more"
    assert len(outcome.transport.opens) == 1


def test_a_busy_source_of_links_is_asked_again_without_asking_with_the_old_link(tmp_path):
    """A failed refresh is repeated after back-off; the refused link is not used again."""
    refresher = Refresher(Transient("busy"), Transient("busy"))
    outcome = one(tmp_path, [Reply(status=403), Reply(body=BODY)], refresher)
    assert len(refresher.stale) == 3
    assert len(outcome.transport.opens) == 2
    assert outcome.statuses == ["done"]


def test_without_a_source_of_links_the_message_says_so(tmp_path):
    """One request, and what to do."""
    outcome = one(tmp_path, Reply(status=403), None)
    assert "has no way to get a fresh one" in outcome.records["a"].error


def test_a_fresh_link_brings_its_own_headers(tmp_path):
    """They replace the entry's."""
    refresher = Refresher(headers=(("X-Key", SecretText("new")),))
    entry = entry_of(0, "a", BODY, headers={"X-Key": "old"})
    script = {"a": [Reply(status=403), Reply(body=BODY)]}
    outcome = drive(tmp_path, script, [entry], refresher=refresher)
    assert [a.secrets for a in outcome.transport.opens] == [{"X-Key": "old"}, {"X-Key": "new"}]


def test_the_headers_of_a_fresh_link_are_for_its_own_source(tmp_path):
    """A mirror on another host gets none of them."""
    refresher = Refresher(headers=(("X-Key", SecretText(CANARY)),))
    mirror = SecretUrl("http://mirror.test/m/a")
    entry = entry_of(0, "a", BODY, digest=True, mirrors=(mirror,))
    script = {"a": [Reply(status=403), Reply(status=404)], "m/a": Reply(body=BODY)}
    outcome = drive(tmp_path, script, [entry], refresher=refresher)
    assert [a.secrets for a in outcome.transport.opens] == [{}, {"X-Key": CANARY}, {}]
    assert outcome.tree == {"a": BODY}


class Moving(Refresher):
    """Its first link is another host's, with a header; the next ones are the entry's own host's, without."""

    async def refresh(self, entry, stale):
        self.stale.append(stale.url.reveal())
        n = len(self.stale)
        host, headers = ("moved.test", (("X-Key", SecretText(CANARY)),)) if n == 1 else ("origin.test", ())
        return Link(SecretUrl(f"http://{host}/{entry.path}?n={n}"), None, headers)


@pytest.mark.parametrize("own", [{}, {"X-Key": "own"}])
def test_the_headers_of_a_link_end_with_it(tmp_path, own):
    """The next link's host, which is the entry's own, gets the entry's headers, and a mirror there too."""
    mirror = SecretUrl("http://origin.test/m/a")
    entry = entry_of(0, "a", BODY, digest=True, mirrors=(mirror,), headers=own)
    script = {"a": [Reply(status=403), Reply(status=403), Reply(status=404)], "m/a": Reply(body=BODY)}
    outcome = drive(tmp_path, script, [entry], refresher=Moving())
    hosts = [SecretUrl(asked.url).host() for asked in outcome.transport.opens]
    assert hosts == ["origin.test", "moved.test", "origin.test", "origin.test"]
    assert [asked.secrets for asked in outcome.transport.opens] == [own, {"X-Key": CANARY}, own, own]


def test_a_mirror_gets_no_headers_of_a_link_to_another_host(tmp_path):
    """Also where the mirror is at the entry's own host."""
    mirror = SecretUrl("http://origin.test/m/a")
    entry = entry_of(0, "a", BODY, digest=True, mirrors=(mirror,))
    script = {"a": [Reply(status=403), Reply(status=404)], "m/a": Reply(body=BODY)}
    outcome = drive(tmp_path, script, [entry], refresher=Moving())
    assert [asked.secrets for asked in outcome.transport.opens] == [{}, {"X-Key": CANARY}, {}]


def test_bytes_are_kept_across_a_renewal(tmp_path):
    """The same object under a fresh link: Range and If-Range go on."""
    script = [Reply(body=BODY, cut=999, then="reset"), Reply(status=403), Reply(body=BODY)]
    outcome = one(tmp_path, script, Refresher())
    assert [a.range for a in outcome.transport.opens] == [None, "bytes=999-", "bytes=999-"]
    assert outcome.tree == {"a": BODY}


class Rereading:
    """A manifest that is signed anew on each read; each read takes a second."""

    def __init__(self, entries):
        self.entries = entries
        self.reads = 0
        self.closed = 0

    async def __call__(self):
        await asyncio.sleep(1.0)
        self.reads += 1
        return _Reread(self, [_resigned(entry, self.reads) for entry in self.entries])


class _Reread(ListPlan):
    def __init__(self, owner, entries, headers=()):
        super().__init__(entries, headers)
        self.owner = owner

    def find(self, path, start_byte):
        return next((i for i, e in enumerate(self._entries) if e.path == path), None)

    def close(self):
        self.owner.closed += 1


def _resigned(entry, n):
    return entry_of(entry.id, entry.path, BODY, query=f"?n={n}")


def test_one_reading_of_the_manifest_serves_all_that_wait(tmp_path):
    """Twelve links refused at once cost one request to the manifest's source, not twelve."""
    entries = [entry_of(i, f"f{i}", BODY) for i in range(12)]
    again = Rereading(entries)
    scripts = {e.path: [Reply(status=403), Reply(body=BODY)] for e in entries}
    refresher = ManifestRefresher(again, VirtualClock())
    outcome = drive(tmp_path, scripts, entries, refresher=refresher, concurrency=12)
    refresher.close()
    assert outcome.statuses == ["done"] * 12
    assert (again.reads, again.closed) == (1, 1)
    assert outcome.elapsed_s == pytest.approx(1.0)


def test_an_older_reading_is_closed(tmp_path):
    """Each reading replaces the one before it: a long run does not collect plans."""
    entry = entry_of(0, "a", BODY)
    again = Rereading([entry])
    script = {"a": [Reply(status=403), Reply(status=403, latency_s=REREAD_S + 1), Reply(body=BODY)]}
    long = {"stall_timeout": 100.0}
    outcome = drive(tmp_path, script, [entry], refresher=ManifestRefresher(again, VirtualClock()), **long)
    assert outcome.statuses == ["done"]
    assert (again.reads, again.closed) == (2, 1)


class Signed(FakeTransport):
    """Serves a link for ``life_s`` after it was signed: the first ones at the start, others when read."""

    def __init__(self, entries, life_s):
        super().__init__({entry.path: Reply() for entry in entries})
        self.entries = entries
        self.life_s = life_s
        self.signed_s = [0.0]
        self.refused = 0

    async def reread(self):
        await asyncio.sleep(0.1)
        self.signed_s.append(asyncio.get_running_loop().time())
        number = len(self.signed_s) - 1
        return _Reread(Rereading([]), [self.sign(entry, number) for entry in self.entries])

    def sign(self, entry, number):
        return _resigned(entry, number)

    async def open(self, url, headers, secrets, **how):
        number = int(url.reveal().partition("?n=")[2] or 0)
        is_over = asyncio.get_running_loop().time() - self.signed_s[number] > self.life_s
        self.refused += is_over
        path = url.reveal().partition("?")[0].rpartition("/")[2]
        self.scripts[path] = [Reply(status=403) if is_over else Reply(body=BODY, latency_s=1.0)]
        return await super().open(url, headers, secrets, **how)


class SignedTo(Signed):
    """The same, and each link states its end."""

    def sign(self, entry, number):
        expires_at = NOW + self.signed_s[number] + self.life_s
        return entry_of(entry.id, entry.path, BODY, query=f"?n={number}", expires_at=expires_at)


@pytest.mark.parametrize(("kind", "most_refused"), [(Signed, 20), (SignedTo, 0)])
def test_no_file_is_lost_when_links_live_for_seconds(tmp_path, kind, most_refused):
    """Links of 10 s, 100 s of work: one reading serves all for most of their life; few are tried too late."""
    entries = [entry_of(i, f"f{i:03}", BODY) for i in range(400)]
    transport = kind(entries, 10.0)
    if kind is SignedTo:
        entries = [transport.sign(entry, 0) for entry in entries]
    refresher = ManifestRefresher(transport.reread, VirtualClock())
    outcome = drive(tmp_path, {}, entries, refresher=refresher, transport=transport, concurrency=4)
    assert set(outcome.statuses) == {"done"}
    assert transport.refused <= most_refused
    assert len(transport.signed_s) <= 20


def test_a_few_refusals_do_not_make_all_links_doubtful(tmp_path):
    """Two files that nobody may have cost their own readings; the others keep their links."""
    entries = [entry_of(i, f"f{i:03}", BODY) for i in range(100)]
    scripts: dict[str, Any] = {entry.path: Reply(body=BODY, latency_s=1.0) for entry in entries}
    scripts["f050"] = scripts["f051"] = Reply(status=403)
    again = Rereading(entries)
    refresher = ManifestRefresher(again, VirtualClock())
    outcome = drive(tmp_path, scripts, entries, refresher=refresher, concurrency=4)
    assert outcome.statuses.count("done") == 98
    assert sum("?n=" in asked.url for asked in outcome.transport.opens) == 6
    assert again.reads <= 6


def test_links_that_stay_refused_cost_one_reading_not_one_each(tmp_path):
    """The publisher returns the same links; N entries must not fetch the manifest N times."""
    entries = [entry_of(i, str(i), BODY) for i in range(50)]
    reads, owner = [], Rereading([])

    async def reread():
        reads.append(1)
        return _Reread(owner, entries)

    scripts = {entry.path: Reply(status=403) for entry in entries}
    outcome = drive(tmp_path, scripts, entries, refresher=ManifestRefresher(reread, VirtualClock()))
    assert set(outcome.statuses) == {"failed"}
    assert len(reads) == 1


def test_a_new_token_for_the_same_url_is_a_fresh_link(tmp_path):
    """Some publishers sign in a header, of the entry or of the whole document."""
    entry, owner = entry_of(0, "a", BODY), Rereading([])

    async def reread():
        return _Reread(owner, [entry], (("Authorization", SecretText("new")),))

    outcome = drive(
        tmp_path,
        {"a": [Reply(status=401), Reply(body=BODY)]},
        [entry],
        headers=(("Authorization", SecretText("old")),),
        refresher=ManifestRefresher(reread, VirtualClock()),
    )
    assert outcome.statuses == ["done"]
    assert [asked.secrets["Authorization"] for asked in outcome.transport.opens] == ["old", "new"]


def test_links_that_are_over_are_not_handed_out(tmp_path):
    """What an earlier reading brought may have ended since."""
    entry = entry_of(0, "a", BODY)
    over = entry_of(0, "a", BODY, query="?old", expires_at=NOW + 40)
    fresh = entry_of(0, "a", BODY, query="?new", expires_at=NOW + 9000)
    plans = [_Reread(Rereading([]), [over]), _Reread(Rereading([]), [fresh])]

    async def main():
        async def reread():
            return plans.pop(0)

        clock = VirtualClock()
        refresher = ManifestRefresher(reread, clock)
        first = await refresher.refresh(entry, Link(entry.url))
        await clock.sleep(50)
        second = await refresher.refresh(entry, Link(entry.url))
        return first.url, second.url

    assert run_virtual(main()) == (over.url, fresh.url)


@pytest.mark.parametrize(("fault", "words"), [
    (ManifestError("m", (Problem(1, "not JSON"),), 1), "the manifest, read again, has faults"),
    (LocalFault("/tmp is full"), "the manifest could not be read again: /tmp is full"),
])  # fmt: skip
def test_a_manifest_that_cannot_be_read_again_does_not_end_the_run(tmp_path, fault, words):
    """An error page, or no room for it, costs tries of the entries that wait for it, nothing else."""
    entries = [entry_of(0, "a", BODY), entry_of(1, "b", BODY)]

    async def reread():
        raise fault

    scripts = {"a": Reply(status=403), "b": Reply(body=BODY)}
    outcome = drive(tmp_path, scripts, entries, refresher=ManifestRefresher(reread, VirtualClock()))
    assert outcome.statuses == ["failed", "done"]
    assert outcome.records["a"].error == f"{words}; gave up after 5 tries"


@pytest.mark.parametrize(("change", "words"), [
    (lambda e: entry_of(0, "b", BODY), "no longer has this entry"),
    (lambda e: entry_of(0, "a", BODY, size=3), "another size or hash"),
    (lambda e: entry_of(0, "a", BODY, digest=True), "another size or hash"),
    (lambda e: e, "the same refused link"),
])  # fmt: skip
def test_a_manifest_read_again_must_mean_the_same_entry(change, words):
    """A fresh link is taken only for the very same object."""
    entry = entry_of(0, "a", BODY)

    async def reread():
        return _Reread(Rereading([]), [change(entry)])

    async def main():
        with pytest.raises(Refused, match=words):
            await ManifestRefresher(reread, SystemClock()).refresh(entry, Link(entry.url))

    run_virtual(main())


@pytest.mark.parametrize(("command", "expected"), [
    ("""sh -c 'cat >/dev/null; echo https://h.test/x?s=1%3A'""", Link(SecretUrl("https://h.test/x?s=1%3A"))),
    ("""sh -c 'cat >/dev/null; echo "{\\"url\\": \\"http://h.test/y\\", \\"expires_at\\": 9}"'""",
     Link(SecretUrl("http://h.test/y"), 9.0)),
    ("sh -c 'cat >/dev/null; exit 3'", "exit code 3"),
    ("sh -c 'cat >/dev/null; echo ftp://h/x'", "not one http"),
    ("sh -c 'cat >/dev/null; echo {}'", "neither a URL nor"),
    ("echo http:///h.test/x", "not one http.*: it has no host"),
    ("""echo '{"url": "http://h.test/y", "headers": {"Range": "bytes=0-1"}}'""", "Range is set by cfetch"),
    ("yes", "more than 64 KiB"),
    ("/no/such/helper", "cannot be started"),
])  # fmt: skip
async def test_the_users_command(command, expected):
    """A URL or an object is taken; anything else is named without quoting it."""
    entry = entry_of(0, "a", BODY, query="?" + CANARY)
    if isinstance(expected, Link):
        assert await CommandRefresher(command).refresh(entry, Link(entry.url)) == expected
    else:
        with pytest.raises(Refused, match=expected) as caught:
            await CommandRefresher(command).refresh(entry, Link(entry.url))
        assert "CANARY" not in str(caught.value)


async def test_the_users_command_gets_the_entry_as_json():
    """On its standard input, with the stale URL."""
    entry = entry_of(4, "a", BODY, query="?" + CANARY)
    command = """python3 -c 'import json,sys; print(json.load(sys.stdin)["url"] + "x")'"""
    assert (
        await CommandRefresher(command).refresh(entry, Link(entry.url))
    ).url.reveal() == entry.url.reveal() + "x"


async def test_a_cancelled_command_takes_its_children_with_it(tmp_path):
    """What the user's shell has started would keep the pipe open, and with it the whole run."""
    told = tmp_path / "pid"
    command = f"sh -c 'sleep 300 & echo $! > {told}; wait'"
    entry = entry_of(0, "a", BODY)
    asking = asyncio.create_task(CommandRefresher(command).refresh(entry, Link(entry.url)))
    async with asyncio.timeout(60):
        while not (told.exists() and told.read_text().strip()):
            assert not asking.done(), asking  # it says why no command runs
            await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking], timeout=60)  # it would live for 300 s
    assert asking.cancelled()
    state = Path(f"/proc/{told.read_text().strip()}/stat")
    async with asyncio.timeout(60):
        while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
            await asyncio.sleep(0.01)


async def test_a_command_that_is_just_being_started_is_ended_too(monkeypatch):
    """On a busy machine it may run before asyncio has its pipes; nobody else would know of it."""
    start, children, held = asyncio.create_subprocess_exec, [], asyncio.Event()

    async def start_slowly(*words, **how):
        children.append(await start(*words, **how))
        await held.wait()
        return children[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_slowly)
    entry = entry_of(0, "a", BODY)
    asking = asyncio.create_task(CommandRefresher("sleep 300").refresh(entry, Link(entry.url)))
    async with asyncio.timeout(60):
        while not children:
            await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.sleep(0)
    held.set()
    await asyncio.wait([asking], timeout=60)
    assert asking.cancelled()
    assert children[0].returncode == -signal.SIGKILL
