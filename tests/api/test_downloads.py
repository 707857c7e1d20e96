"""The library: it takes manifests, entries and frames, waits or is awaited, and ends in good order."""

import asyncio
import json
import signal
import threading
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import cfetch
from cfetch.base.events import fan_out
from tests.api.slow_site import BODY
from tests.engine.drive import tree


def threads():
    """The library's threads that are still at work; those whose job has ended may take a moment to go."""
    ours = [thread for thread in threading.enumerate() if thread.name == "cfetch"]
    for thread in ours:
        thread.join(60)
    return [thread for thread in ours if thread.is_alive()]


def once_active(act):
    """A listener that calls ``act`` at the first progress with an attempt that has brought bytes."""
    acted: list[cfetch.Event] = []

    def listener(event):
        is_active = isinstance(event, cfetch.Progress) and any(attempt.bytes for attempt in event.active)
        if is_active and not acted:
            acted.append(event)
            act()

    return listener


class Sources:
    """The same two files in every form that ``download`` takes."""

    def __init__(self, site, folder):
        first, second = site.url("a"), site.url("b")
        row = {"url": second, "path": "x/b", "size": len(BODY)}
        table = {"link": [first, second], "path": ["a", "x/b"], "size": [None, len(BODY)], "n": [1.5, 2.5]}
        (folder / "m.json").write_text(json.dumps({"version": 1, "files": [{"url": first}, row]}))
        self.manifest = folder / "m.json"
        self.manifest_name = str(folder / "m.json")
        self.entries = [cfetch.Entry(url=first), cfetch.Entry(**row)]
        self.rows = [first, row]
        self.iterator = iter(self.rows)
        self.pandas = pd.DataFrame(table, index=["p", "q"])
        self.arrow = pa.table(table)


@pytest.mark.parametrize(
    "form", ["manifest", "manifest_name", "entries", "rows", "iterator", "pandas", "arrow"]
)
def test_every_form_of_a_source_is_the_same_download(form, site, tmp_path):
    """Files, names and the summary are those of a manifest's download."""
    source = getattr(Sources(site, tmp_path), form)
    summary = cfetch.download(source, to=tmp_path / "to")
    assert (summary.status, summary.files.done) == ("completed", 2)
    assert tree(tmp_path / "to") == {"a": BODY, "x/b": BODY}
    again = cfetch.download(getattr(Sources(site, tmp_path), form), to=[str(tmp_path / "to")])
    assert (again.files.skipped, sorted(site.asked)) == (2, ["a", "b"])


def test_polars_writes_its_own_lines(site, tmp_path):
    """A frame that has write_ndjson is asked for its lines."""

    class Polars:
        columns = ("url",)

        def write_ndjson(self, file):
            file.write(json.dumps({"url": site.url("a")}).encode())

    assert cfetch.download(Polars(), to=tmp_path).files.done == 1


@pytest.mark.parametrize("rows", [[object()], [["http://h.test/a"]], [3]], ids=["object", "list", "number"])
def test_rows_that_are_none_are_refused(rows, tmp_path):
    """The error is the caller's, and nothing was downloaded."""
    with pytest.raises(cfetch.UsageError, match="the list of files"):
        cfetch.download(rows, to=tmp_path)


def test_an_iterator_that_fails_is_the_callers_error(tmp_path):
    """It is raised as it is; nothing stays behind."""

    def rows():
        yield "http://h.test/a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cfetch.download(rows(), to=tmp_path)
    assert (list(tmp_path.iterdir()), threads()) == ([], [])


def test_missing_files_are_an_error_with_the_summary(site, tmp_path):
    """It names the first failure; max_failures permits some."""
    urls = [site.url("a"), site.url("missing")]
    with pytest.raises(cfetch.Incomplete, match=r"missing: 1 of 2 files; the first: missing: ") as raised:
        cfetch.download(urls, to=tmp_path)
    summary = raised.value.summary
    assert (summary.files.done, [failure.path for failure in summary.failures]) == (1, ["missing"])
    permitted = cfetch.download(urls, to=tmp_path, settings=cfetch.Settings(max_failures=1))
    assert (permitted.status, permitted.files.failed) == ("partial", 1)


def test_get_names_and_verifies_one_file(site, tmp_path):
    """A wrong hash leaves no file; output names the file."""
    path = cfetch.get(site.url("a"), to=tmp_path, output="x/y.bin")
    assert (path, path.read_bytes()) == (tmp_path / "x/y.bin", BODY)
    assert cfetch.get(site.url("a"), to=tmp_path, output="x/y.bin") == path  # it is there
    assert cfetch.get([site.url("d"), site.url("c")], to=tmp_path) == [tmp_path / "d", tmp_path / "c"]
    with pytest.raises(cfetch.Incomplete):
        cfetch.get([site.url("b")], to=tmp_path / "z", sha256="0" * 64)
    assert tree(tmp_path / "z") == {}


async def test_it_runs_where_an_event_loop_is_running(site, tmp_path):
    """As in a notebook; also what asks a server before there is a plan."""
    settings = cfetch.Settings(name_by="header")
    assert cfetch.download([site.url("a")], to=tmp_path / "a", settings=settings).files.done == 1
    assert cfetch.get(site.url("b"), to=tmp_path / "b") == tmp_path / "b/b"
    with pytest.raises(cfetch.UsageError):  # no list, and no second loop in this thread
        cfetch.read_manifest(site.url("missing"))
    summary, path = await asyncio.gather(
        cfetch.download_async([site.url("a")], to=tmp_path / "c"),
        cfetch.get_async(site.url("b"), to=tmp_path / "d"),
    )
    assert (summary.files.done, path) == (1, tmp_path / "d/b")


async def test_a_cancelled_task_ends_the_run_in_good_order(site, tmp_path):
    """The plan is given back at once, and the same call goes on; what was in place stays."""
    urls = [site.url("a"), site.url("slow")]
    loop = asyncio.get_running_loop()
    ended = []

    def note_end(event):
        if isinstance(event, cfetch.RunFinished):
            ended.append(event.summary.status)

    cancel = once_active(lambda: loop.call_soon_threadsafe(task.cancel))
    task: asyncio.Task[cfetch.Summary] = asyncio.create_task(
        cfetch.download_async(urls, to=tmp_path, on_event=fan_out(note_end, cancel))
    )
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (ended, threads()) == (["interrupted"], [])
    site.let_go()
    summary = await cfetch.download_async(urls, to=tmp_path)
    assert (summary.status, summary.files.skipped, summary.files.done) == ("completed", 1, 1)


async def test_a_cancelled_task_ends_the_reading_of_endless_rows(tmp_path):
    """Nothing was downloaded, and no state stays."""
    loop = asyncio.get_running_loop()

    def rows():
        for number in count():
            yield f"http://h.test/{number}"
            if number == 1500:
                loop.call_soon_threadsafe(task.cancel)

    task: asyncio.Task[cfetch.Summary] = asyncio.create_task(cfetch.download_async(rows(), to=tmp_path))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (list(tmp_path.iterdir()), threads()) == ([], [])


@pytest.fixture
def usual_ctrl_c():
    """SIGINT raises KeyboardInterrupt, as in a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_run_in_good_order(usual_ctrl_c, site, tmp_path):
    """KeyboardInterrupt comes after the end; the same call goes on."""
    urls = [site.url("a"), site.url("slow")]
    with pytest.raises(KeyboardInterrupt):
        cfetch.download(urls, to=tmp_path, on_event=once_active(usual_ctrl_c))
    assert threads() == []
    site.let_go()
    assert cfetch.download(urls, to=tmp_path).files.skipped == 1


def test_an_error_of_the_listener_ends_the_run_and_is_raised(site, tmp_path):
    """It is called no more; the plan is given back."""
    called = []

    def listener(event):
        called.append(event)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cfetch.download([site.url("slow")], to=tmp_path, on_event=listener)
    assert (len(called), threads()) == (1, [])


def test_it_prints_nothing_and_leaves_signals_alone(site, tmp_path, capfd):
    """Both are the calling program's."""
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    during = []

    def listener(event):
        during.append([signal.getsignal(number) for number in signal.valid_signals()])

    with pytest.raises(cfetch.Incomplete):
        cfetch.download([site.url("a"), site.url("missing")], to=tmp_path, on_event=listener)
    assert during
    assert all(handlers == before for handlers in during)
    assert capfd.readouterr() == ("", "")


def test_a_dry_run_is_refused(tmp_path):
    """It would download."""
    with pytest.raises(cfetch.ConfigError, match="dry_run"):
        cfetch.download(["http://h.test/a"], to=tmp_path, settings=cfetch.Settings(dry_run=True))


def test_no_variable_changes_a_call(site, tmp_path, monkeypatch):
    """The command line's variables are the command line's."""
    monkeypatch.setenv("CFETCH_TO", "/nowhere")
    monkeypatch.setenv("CFETCH_CONCURRENCY", "nonsense")
    assert cfetch.download([site.url("a")], to=tmp_path).files.done == 1


def test_a_manifest_is_read_as_entries(tmp_path):
    """They are those that a download takes: reading and writing them again gives the same."""
    row: dict[str, Any] = {"url": "https://h.test/a?sig=CANARY", "path": "p/a", "size": 4,
           "sha256": "ab" * 32, "batch": "k", "expires_at": "2035-01-01T00:00:00Z",
           "mirrors": ["https://m.test/a"]}  # fmt: skip
    ranged: dict[str, Any] = {
        "url": "https://h.test/w",
        "path": "w",
        "offset": 5,
        "length": 7,
        "headers": {"X-A": "1"},
    }
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps({"version": 1, "headers": {"X-All": "2"}, "files": [row, ranged]}))
    first, second = cfetch.read_manifest(manifest)
    assert first == cfetch.Entry(
        **row
        | {"mirrors": ("https://m.test/a",), "expires_at": datetime(2035, 1, 1, tzinfo=UTC)}
        | {"headers": {"X-All": "2"}}
    )
    assert second == cfetch.Entry(**ranged | {"headers": {"X-All": "2", "X-A": "1"}})
    assert "CANARY" not in repr(first)
    with pytest.raises(cfetch.ManifestError, match="the list of files has 1 fault"):
        cfetch.download([first, cfetch.Entry(url="https://h.test/b", path="../b")], to=tmp_path)


def test_recorded_files_and_settings_are_read(site, tmp_path):
    """The metrics of a destination, oldest run first; the settings that tune writes."""
    for name in ("a", "b"):
        cfetch.download([site.url(name)], to=tmp_path / "to")
    assert [record.path for record in cfetch.read_metrics(tmp_path / "to")] == ["a", "b"]
    (tmp_path / "tuned.yaml").write_text("multiplier: 2.5\nlimit_rate: 10M\n")
    settings = cfetch.read_settings(tmp_path / "tuned.yaml")
    assert (settings.multiplier, settings.limit_rate) == (2.5, 10 << 20)


def test_two_calls_of_one_plan_are_refused_and_others_are_not(site, tmp_path):
    """The first run goes on; whoever wants the same entries is told who has them."""
    raised = []

    def call_again():
        try:
            cfetch.download([site.url("slow")], to=tmp_path)
        except cfetch.Held as held:
            raised.append(held)
        cfetch.download([site.url("a")], to=tmp_path)
        site.let_go()

    others = threading.Thread(target=call_again)
    summary = cfetch.download([site.url("slow")], to=tmp_path, on_event=once_active(others.start))
    others.join()
    assert (summary.files.done, len(raised)) == (1, 1)
    assert {"a", "slow"} == tree(tmp_path).keys()


def test_an_error_of_the_listener_before_the_run_ends_it_too(site, tmp_path):
    """A note about the entries comes before the first request; then no file is brought."""
    ranged = cfetch.Entry(url=site.url("slow"), path="w", offset=0, length=9)

    def listener(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cfetch.download([ranged], to=tmp_path, on_event=listener)
    assert (site.asked, tree(tmp_path)) == ([], {})
