"""The live page's server: what it answers, to whom, and that a run never waits for it."""

import json
import urllib.error
import urllib.request
from itertools import pairwise

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_textfile

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.events import ExecutorView, RunFinished
from cfetch.base.secret import SecretText
from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec
from cfetch.plugins.monitors.openmetrics import MetricsTextfile, RunMetrics
from cfetch.plugins.monitors.page_server import PageServer, read_address
from cfetch.plugins.monitors.page_state import PageState
from cfetch.plugins.monitors.run_numbers import HOSTS
from cfetch.plugins.monitors.serving import open_serving
from cfetch.show.page.document import Cards, Cell, PageTable, Throughput
from cfetch.show.summary import Tally
from tests.show.records import active, attempt, finished, progress, record, started, volume

LOCAL = read_address("0")


def ask(url, path="", **headers):
    """The status and the text of an answer."""
    base, _, query = url.partition("?")
    request = urllib.request.Request(f"{base}{path}{'?' if query else ''}{query}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def events_of_a_run(*records):
    """A run of ``records`` from its start to its summary."""
    tally = Tally()
    events = [started(files=len(records)), *finished(*records)]
    for event in events:
        tally(event)
    return [*events, RunFinished(t_s=9.0, summary=tally.summary(9.0))]


def samples(text, parse=text_string_to_metric_families):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_all_its_answers_are_of_the_run():
    """Page, numbers and metrics show an event as soon as it was emitted."""
    with PageServer(LOCAL, None) as server:
        assert json.loads(ask(server.url, "summary")[1])["state"] == "waiting"
        server(started(files=2, bytes_known=200))
        server(progress(1.0, done=1, bytes_done=100, active=[active(1)]))
        (entry,) = finished(record(0, 100, attempt()))
        server(entry)
        live = json.loads(ask(server.url, "summary")[1])
        assert (live["state"], live["files"], live["done"], live["active"]) == ("running", 2, 1, 1)
        assert samples(ask(server.url, "metrics")[1])["cfetch_files_total", "done"] == 1
        assert ask(server.url, "healthz") == (200, "ok\n")
        status, page = ask(server.url)
        assert status == 200
        assert "connect-src 'self'" in page
        assert ask(server.url, "nothing")[0] == 404


def test_a_reader_of_events_gets_the_last_document_when_the_run_ends():
    """The stream has the live numbers and the page, and ends after the run's summary."""
    with PageServer(LOCAL, None) as server:
        stream = urllib.request.urlopen(f"{server.url}events", timeout=30)
        assert stream.readline() == b"event: live\n"
        for event in events_of_a_run(record(0, 100, attempt())):
            server(event)
    kinds, last = [], {}
    for line in stream.read().decode().splitlines():
        name, _, value = line.partition(": ")
        if name == "event":
            kinds.append(value)
        elif name == "data" and kinds:
            last[kinds[-1]] = json.loads(value)
    assert last["live"]["state"] == "finished"
    assert last["live"]["summary"]["files"]["done"] == 1
    assert last["page"]["parts"][0]["sections"][0]["text"].startswith("The file is in place")


def test_another_site_cannot_read_a_run_through_its_own_name():
    """A name that points to loopback is refused; nothing can be changed by any method."""
    with PageServer(LOCAL, None) as server:
        assert ask(server.url, "summary", Host="evil.example:80")[0] == 403
        assert ask(server.url, "summary", Host="localhost:1")[0] == 200
        post = urllib.request.Request(server.url, data=b"x")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(post, timeout=30)
        head = urllib.request.Request(f"{server.url}events", method="HEAD")  # its answer would have no end
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(head, timeout=30)


def test_a_token_is_asked_for_everywhere():
    """It comes with the address or as a bearer token; the page's address does not hold it."""
    with PageServer(LOCAL, SecretText("s3cret")) as server:
        url = server.url
        assert {ask(url, path)[0] for path in ("", "events", "summary", "metrics", "healthz")} == {401}
        assert ask(url, "summary?token=wrong")[0] == 401
        assert ask(url, "metrics", Authorization="Bearer s3cret")[0] == 200
        assert ask(f"{url}?token=s3cret")[0] == 200


def test_beyond_loopback_there_is_a_token_without_asking(capsys, tmp_path, monkeypatch):
    """A random one, in a file that only its owner reads, and never printed; no variable is an error."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with open_serving("0.0.0.0:0", None, environ={}):
        (path,) = tmp_path.iterdir()
        link, told = path.read_text().strip(), capsys.readouterr().err
        assert str(path) in told
        assert link.partition("?")[0] in told
        token = link.partition("token=")[2]
        assert len(token) > 30
        assert token not in told
        assert path.stat().st_mode & 0o777 == 0o600
        assert ask(link.replace("0.0.0.0", "127.0.0.1"))[0] == 200
    assert list(tmp_path.iterdir()) == []
    with open_serving("0.0.0.0:0", None, token_env="PAGE", environ={"PAGE": "own-s3cret"}):
        told = capsys.readouterr().err
        assert "PAGE" in told
        assert "s3cret" not in told
    with open_serving("0", None, environ={}):
        assert "token" not in capsys.readouterr().err
    with (
        pytest.raises(UsageError, match="TOKEN"),
        open_serving("0", None, token_env="TOKEN", environ={"A": "b"}),
    ):
        pass


@pytest.mark.parametrize("part", ["apply", "make_page"])
def test_what_cannot_be_shown_is_one_line(monkeypatch, part):
    """The page's own faults end neither the run nor the server, and the live numbers go on."""

    def fail(*_):
        raise IndexError("secret")

    monkeypatch.setattr(PageState, part, fail)
    lines: list[str] = []
    with PageServer(LOCAL, None, emit_line=lines.append) as server:
        stream = urllib.request.urlopen(f"{server.url}events", timeout=30)
        for event in events_of_a_run(record(0, 100, attempt())):
            server(event)
        assert stream.readline() == b"event: live\n"
    assert b"event: live\n" in stream.read()
    assert len(lines) == 1
    assert "IndexError in test_page_server.py" in lines[0]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("8080", "127.0.0.1", 8080), ("[::1]:0", "::1", 0), ("host.example:80", "host.example", 80)],
)
def test_an_address_has_a_port_and_perhaps_a_host(text, host, port):
    """Without a host it is this machine only."""
    assert read_address(text) == (host, port)


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "80000", "1.2.3.4:x", "²"])
def test_what_is_no_address_is_refused(text):
    """With an example of one."""
    with pytest.raises(UsageError, match="like 127"):
        read_address(text)


def test_a_port_in_use_is_one_message():
    """It names the port, and the server's thread ends."""
    with PageServer(LOCAL, None) as server:
        port = server.url.split(":")[2].strip("/")
        with pytest.raises(UsageError, match=f"port {port}"), PageServer(read_address(port), None):
            pass


def test_a_follower_shows_its_latest_run_and_counters_add_up():
    """The second run's page has only its own files."""
    state, metrics = PageState(), RunMetrics()
    for event in events_of_a_run(record(0, 100, attempt()), record(1, 100, attempt())):
        state.apply(event)
        metrics(event)
    for event in events_of_a_run(record(0, 100, attempt())):
        state.apply(event)
        metrics(event)
    assert '"value":"1","note":"of 1"' in msgspec.json.encode(state.make_page()).decode()
    assert samples(metrics.render()[0].decode())["cfetch_files_total", "done"] == 3


def test_the_end_of_a_run_is_explained_when_it_has_come():
    """Before it, neither a cause of the end nor a missing file would be true."""
    state, told = PageState(), []
    for event in events_of_a_run(record(0, 100, attempt()), record(1, 100, attempt())):
        state.apply(event)
        told.append(msgspec.json.encode(state.make_page()).decode())
    assert not any("verdict" in text or "still goes on" in text for text in told[:-1])
    assert "All 2 files are in place" in told[-1]


def test_failures_can_be_fetched_again_once_the_run_has_its_metrics():
    """While it is under way its metrics are not whole, so there is no command for them."""
    failed = record(0, 100, attempt(), status="failed", error_kind="refused")
    *events, end = events_of_a_run(failed)
    summary = msgspec.structs.replace(end.summary, metrics="/m.jsonl")
    state, commands = PageState(), []
    for event in (*events, RunFinished(t_s=9.0, summary=summary)):
        state.apply(event)
        sections = [section for part in state.make_page().parts for section in part.sections]
        tables = [section for section in sections if isinstance(section, PageTable)]
        commands += [table.command for table in tables if table.title == "Failures"]
    assert commands[0] == ""
    assert commands[-1].endswith(" --failed-from /m.jsonl")


def test_attempts_under_way_are_bars():
    """They end now, and have a story."""
    state = PageState()
    for event in (started(files=1), progress(5.0, active=[active(0, elapsed_s=3.0)])):
        state.apply(event)
    text = msgspec.json.encode(state.make_page()).decode()
    assert '"from_s":[2.0],"to_s":[5.0],"outcome":[4]' in text


def under_way(t_s, received, **more):
    """The numbers of a run whose only file is under way."""
    attempts = [active(0, elapsed_s=t_s, bytes=received, size_bytes=5_000_000, **more)]
    return progress(t_s, bytes_active=received, active=attempts)


def test_bytes_under_way_count_everywhere_on_the_page():
    """Banner, card, rate, chart and the host's row agree while the only file comes."""
    state = PageState()
    for event in (started(files=1), under_way(4.0, 3_000_000), under_way(8.0, 4_000_000)):
        state.apply(event)
    overview, run, _ = state.make_page().parts
    assert isinstance(overview.sections[0], Cards)
    cards = {card.label: card.value for card in overview.sections[0].cards}
    assert (state.make_live().bytes, cards["received"], cards["rate"]) == (4_000_000, "3.8 MiB", "488 KiB/s")
    (throughput,) = [each for each in run.sections if isinstance(each, Throughput)]
    (hosts,) = [each for each in run.sections if isinstance(each, PageTable) and each.title == "Hosts"]
    assert sum(throughput.layers[0].rates_bps) * throughput.width_s == pytest.approx(4_000_000, rel=0.01)
    assert max(throughput.active) == 1.0
    assert [row[4] for row in hosts.rows] == ["3.8 MiB"]
    assert "3.8 MiB" in state.make_live().text


def test_bytes_of_an_earlier_attempt_are_not_of_the_one_under_way():
    """A resumed attempt has brought only what came after its first byte."""
    state = PageState()
    for event in (started(files=1), under_way(4.0, 3_000_000, from_byte=1_000_000)):
        state.apply(event)
    (throughput,) = [each for each in state.make_page().parts[1].sections if isinstance(each, Throughput)]
    assert sum(throughput.layers[0].rates_bps) * throughput.width_s == pytest.approx(2e6, rel=0.01)


def test_the_alert_for_a_run_that_stands_is_silent_while_a_file_comes():
    """In every ten minutes of an hour's file the counter grows; at the end it is what was received."""
    metrics = RunMetrics()
    metrics(started(files=2))
    metrics(finished(record(1, 1000, status="skipped"))[0])
    counted = [samples(metrics.render()[0].decode())["cfetch_received_bytes_total",]]
    for minutes in range(10, 70, 10):
        received = minutes * 1_000_000
        metrics(progress(60.0 * minutes, skipped=1, bytes_done=1000, bytes_active=received))
        counted.append(samples(metrics.render()[0].decode())["cfetch_received_bytes_total",])
    assert all(after > before for before, after in pairwise(counted))
    assert counted[-1] == 60_000_000
    long = record(0, 61_000_000, attempt(end_s=3660.0, size=61_000_000))
    for event in (
        progress(3650.0),
        *finished(long),
        started(files=1),
        *finished(record(0, 5, attempt(size=5))),
    ):
        metrics(event)
    assert samples(metrics.render()[0].decode())["cfetch_received_bytes_total",] == 61_000_005


def test_a_page_that_cannot_be_drawn_is_one_line_and_the_next_one_comes(monkeypatch):
    """The reader stays connected, the fault is on the page and once among the lines; no traceback is."""

    def fail(*_args, **_options):
        raise ValueError("shapes differ")

    lines: list[str] = []
    with PageServer(LOCAL, None, emit_line=lines.append) as server:
        with monkeypatch.context() as broken:
            broken.setattr("cfetch.plugins.monitors.page_state.make_live_page", fail)
            server(started(files=1))
            stream = urllib.request.urlopen(f"{server.url}events", timeout=30)
            start = b'data: {"schema":"cfetch.page/1"'
            assert b"shapes differ" in next(line for line in stream if line.startswith(start))
        for event in events_of_a_run(record(0, 100, attempt())):
            server(event)
    assert b"At a glance" in stream.read()
    assert lines == [
        "the live page: the charts cannot be drawn now (ValueError: shapes differ); the run goes on"
    ]


def test_an_event_that_cannot_be_shown_does_not_end_the_page():
    """Later events count."""
    faults: list[str] = []
    state = PageState(on_fault=faults.append)
    broken = msgspec.structs.replace(started(files=7), settings=None)
    for event in (broken, started(files=1), *finished(msgspec.structs.replace(record(), attempts=None))):
        state.apply(event)
    state.apply(finished(record(0, 100, attempt()))[0])
    assert "EntryFinished cannot be shown" in faults[-1]
    assert len(state.make_page().parts) == 3


def test_volumes_and_executors_are_tables_with_those_in_trouble_first():
    """Of many executors fifty are shown, bars compare volumes; a run with one place has no such table."""
    state = PageState()
    broken = volume("/d2", breaker="open", reason="No space <b>", bytes_done=150, load_files=0)
    executors = [
        ExecutorView(name=f"worker-{n}", tasks=2, files=n, rate_bps=1e6, fraction=0.2 if n == 90 else None)
        for n in range(99)
    ]
    for event in (started(), progress(1.0, volumes=[volume("/d1"), broken], executors=executors)):
        state.apply(event)
    titles = [section.title for section in state.make_page().parts[0].sections]
    assert titles[:3] == ["At a glance", "Volumes", "Executors"]
    _, volumes, workers = state.make_page().parts[0].sections[:3]
    assert isinstance(volumes, PageTable)
    assert isinstance(workers, PageTable)
    assert [row[0] for row in volumes.rows] == ["/d2", "/d1"]
    assert [cell.bar for row in volumes.rows if isinstance(cell := row[1], Cell)] == [0.5, 1.0]
    assert (volumes.columns[2], [row[2] for row in volumes.rows]) == (">files under way", ["0", "4"])
    assert volumes.rows[0][-1] == Cell(text="× out of use: No space <b>", tone="bad")
    assert [row[0] for row in workers.rows[:2]] == ["worker-90", "worker-0"]
    assert (len(workers.rows), workers.note) == (
        50,
        "99 executors, 198 tasks; 49 further executors not shown",
    )
    state.apply(progress(2.0))
    assert [section.title for section in state.make_page().parts[0].sections] == ["At a glance"]


def test_the_metrics_count_what_happened():
    """Bytes, attempts, retries, stragglers and failures; times by host in a histogram."""
    slow = attempt(1, 0.0, 9.0, size=10, outcome="straggler")
    rescued = record(0, 100, slow, attempt(2, 9.0, 10.0, size=100, first_byte_s=9.5))
    failed = record(1, 100, attempt(outcome="error", size=0), status="failed", error_kind="refused")
    metrics = RunMetrics()
    for event in events_of_a_run(rescued, failed):
        metrics(event)
    values = samples(metrics.render()[0].decode())
    assert values["cfetch_received_bytes_total",] == 110
    assert values["cfetch_wasted_bytes_total",] == 10
    assert values["cfetch_stragglers_total",] == 1
    assert values["cfetch_failures_total", "refused"] == 1
    assert values["cfetch_attempts_total", "done"] == 1
    assert values["cfetch_file_seconds_sum", "h"] == 10.0
    assert values["cfetch_first_byte_seconds_count", "h"] == 3
    assert values["cfetch_run_exit_code",] == 1


def test_many_hosts_share_one_series():
    """A label has a bounded number of values."""
    metrics = RunMetrics()
    for event in finished(*(record(id_, 9, attempt(), host=f"h{id_}") for id_ in range(HOSTS + 20))):
        metrics(event)
    values = samples(metrics.render()[0].decode())
    assert values["cfetch_file_seconds_count", "other"] == 20
    assert len([key for key in values if key[0] == "cfetch_file_seconds_count"]) == HOSTS + 1


def test_the_textfile_is_written_when_a_run_has_ended(tmp_path):
    """Not before; in the format of node_exporter; a place that cannot be written is a local fault."""
    path = tmp_path / "cfetch.prom"
    listener = MetricsTextfile(path)
    *events, end = events_of_a_run(record(0, 100, attempt()))
    for event in events:
        listener(event)
    assert not path.exists()
    listener(end)
    values = samples(path.read_text(), read_textfile)
    assert values["cfetch_files_total", "done"] == 1
    assert values["cfetch_run_duration_seconds",] == 9.0
    with pytest.raises(LocalFault, match="the metrics"):
        MetricsTextfile(tmp_path / "no" / "x.prom")(end)


def test_the_command_serves_its_run_and_writes_its_numbers(tmp_path):
    """The address is on stderr before the first byte; the textfile is there at the end."""
    with OriginProcess(OriginSpec(groups=(Group("g-", 3, 1000),))) as origin:
        urls = "".join(f"{origin.url}g-{number:07}.bin\n" for number in range(3))
        (tmp_path / "urls.txt").write_text(urls)
        words = ["download", str(tmp_path / "urls.txt"), "--to", str(tmp_path / "to"), "--serve", "0"]
        textfile = tmp_path / "cfetch.prom"
        done = run_child([*CFETCH, *words, "--metrics-textfile", str(textfile)], limit_s=60)
    assert done.exit_code == 0
    assert done.error.startswith("the run is shown at http://127.0.0.1:")
    assert samples(textfile.read_text(), read_textfile)["cfetch_files_total", "done"] == 3
