"""The bench without faults: one server for all, every file compared, curl as the measure."""

import io
import shutil

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from cfetch.base.errors import ConfigError, LocalFault
from cfetch.plugins.lab.bench import clean, static_server
from cfetch.plugins.lab.bench.clean import CleanOptions, run
from cfetch.plugins.lab.views.bench_document import CleanBench, Trial
from cfetch.plugins.lab.views.clean_view import view

needs_nginx = pytest.mark.skipif(static_server.NGINX is None, reason="nginx is not installed here")


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text("concurrency: 3\nfiles: [{count: 5, size: 2KiB}]")
    return str(path)


def check_small_bench(scenario, tmp_path, server, **more):
    """Run one round, and return the set."""
    said: list[str] = []
    options = CleanOptions(scenarios=[scenario], quick=True, folder=tmp_path, **more)
    bench = run(options, said.append)
    (small,) = bench.sets
    assert (bench.server, bench.rounds, bench.broken) == (server, 1, [])
    assert (small.files, small.size_bytes) == (5, 5 * 2048)
    assert {trial.right for contender in small.contenders for trial in contender.trials} == {5}
    assert small.contenders[0].name == "cfetch"
    assert said[0] == f"tiny: 5 files, served by {server}"
    assert msgspec.json.decode(msgspec.json.encode(bench), type=CleanBench) == bench
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"], "the bench left files behind"
    return small


@needs_nginx
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_nginx_serves_every_tool_the_same_files(scenario, tmp_path, tls):
    """Cfetch runs with its defaults, and trusts the server's own certificate."""
    if tls and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    small = check_small_bench(scenario, tmp_path, "nginx", tls=tls)
    command = "cfetch download M --to O --quiet"
    assert small.contenders[0].command == (f"{command} --ca-file A" if tls else command)
    assert (small.against_curl is None) == (shutil.which("curl") is None)


def test_without_nginx_our_own_origin_serves(scenario, tmp_path, monkeypatch):
    """It says so. It speaks no TLS, and without curl there is no ratio."""
    monkeypatch.setattr(static_server, "NGINX", None)
    monkeypatch.setattr(clean, "find_program", lambda _: None)
    assert check_small_bench(scenario, tmp_path, "cfetch's own origin").against_curl is None
    with pytest.raises(LocalFault, match="nginx, which is not installed"):
        run(CleanOptions(scenarios=[scenario], tls=True, folder=tmp_path))


def test_a_wrong_file_breaks_a_bound(scenario, tmp_path, monkeypatch):
    """A fast run that did not bring everything is no good run."""
    trial = Trial(wall_s=1.0, cpu_s=0.5, exit_code=1, killed=False, right=3)
    monkeypatch.setattr(static_server, "NGINX", None)
    monkeypatch.setattr(clean, "run_peer", lambda *_, **__: trial)
    bench = run(CleanOptions(scenarios=[scenario], quick=True, folder=tmp_path))
    assert bench.broken == [
        "tiny: a run of cfetch left 2 of 5 files wrong or missing, with exit code 1",
    ]


def test_a_scenario_with_faults_is_not_clean(tmp_path):
    """No tool would be measured that has to wait for a server."""
    with pytest.raises(ConfigError, match="stragglers has faults"):
        run(CleanOptions(scenarios=["stragglers"], folder=tmp_path))


def test_a_machine_without_room_is_told_so(monkeypatch, tmp_path):
    """In memory or on disk: one of both needs room for what is served and what is fetched."""
    monkeypatch.setattr(clean, "MEMORY", tmp_path / "none")
    scenario = tmp_path / "s.yaml"
    scenario.write_text("files: [{count: 2, size: 8000PiB}]")
    with pytest.raises(LocalFault, match=r"the bench needs [\d,]+ bytes in"):
        run(CleanOptions(scenarios=[str(scenario)]))


def test_the_table_shows_ratio_and_cost_of_a_file(scenario, tmp_path, monkeypatch):
    """Twice as long as curl, 0.1 ms of CPU a file; no line is wider than 80 columns."""
    times = {"cfetch": (2.0, 0.0005), "curl -Z": (1.0, 0.0001)}

    def run_peer(peer, *_):
        wall_s, cpu_s = times[peer.name]
        return Trial(wall_s=wall_s, cpu_s=cpu_s, exit_code=0, killed=False, right=5)

    monkeypatch.setattr(static_server, "NGINX", None)
    monkeypatch.setattr(clean, "run_peer", run_peer)
    monkeypatch.setattr(clean, "find_program", lambda _: "/bin/true")
    bench = run(CleanOptions(scenarios=[scenario], folder=tmp_path))
    assert bench.sets[0].against_curl == 2.0
    assert [len(contender.trials) for contender in bench.sets[0].contenders] == [5, 5]
    out = io.StringIO()
    Console(file=out, width=80).print(view(bench))
    lines = out.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert [line.split() for line in lines if line.startswith("  cf")] == [
        ["cfetch", "2.00", "s", "2.00-2.00", "2.00", "0.100", "ms", "5/5"],
    ]
