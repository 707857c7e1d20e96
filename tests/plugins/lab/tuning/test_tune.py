"""`cfetch tune` from metrics files to a recommendation: what it picks, when it refuses, what it writes."""

import json
import math
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from rich.console import Console

from cfetch.base.clock import SystemClock
from cfetch.base.config.document import load
from cfetch.base.config.layers import resolve
from cfetch.base.errors import ConfigError, LocalFault, UsageError
from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault, FaultRule
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.tuning.choice import (
    RunResult,
    build_table,
    choose_setting,
    describe_setting,
    score_settings,
)
from cfetch.plugins.lab.tuning.recommendation import (
    DEFAULT_GRID,
    format_config,
    read_grid,
    recommend,
    write_config,
)
from cfetch.plugins.lab.tuning.replay import Setting
from cfetch.plugins.lab.tuning.replay_job import CHUNK_BYTES, replay_on_spark
from cfetch.plugins.lab.tuning.runs import read_recorded_runs, replay_runs
from cfetch.plugins.lab.tuning.use_case import TuneOptions, tune
from cfetch.plugins.lab.views.tune_view import view
from cfetch.plugins.lab.views.tuning_document import Tuning
from cfetch.plugins.spark.work import group_into_tasks
from cfetch.show.metrics import RunHeader
from tests.show.records import attempt, record

DEFAULT = Setting(1.5, 0.6, 5.0)
WORKERS = 4
BPS = 1e6


def write_run(path, seed, *, spread=0.1, slow_share=0.03, slow_by=(10, 20), files=150, hosts=1, mean_s=4.0):
    """One run without mitigation as its metrics file: lognormal times, some of them many times too long."""
    dice = np.random.default_rng(seed)
    seconds = mean_s * dice.lognormal(0, spread, files)
    slow = dice.choice(files, round(slow_share * files), replace=False)
    size = int(BPS * mean_s)
    seconds[slow] = mean_s * dice.uniform(slow_by[0], slow_by[1], len(slow))
    free, records = [0.0] * WORKERS, []
    for at, lasting_s in enumerate(seconds.tolist()):
        begin_s = min(free)
        free[free.index(begin_s)] = begin_s + lasting_s
        one = attempt(1, begin_s, begin_s + lasting_s, size=size, samples=[(begin_s + lasting_s, size)])
        records.append(record(at, size, one, instant=f"run{seed}", host=f"h{at % hosts}"))
    header = RunHeader(
        instant=f"run{seed}", wall_start="2026-01-01T00:00:00Z", version="0", host="here", files=files,
        concurrency=WORKERS, settings={"mitigation": False, "stall_timeout": 30.0},
    )  # fmt: skip
    path.write_bytes(b"\n".join(map(msgspec.json.encode, (header, *records))) + b"\n")
    return path


@pytest.fixture
def five_runs(tmp_path):
    return tuple(write_run(tmp_path / f"{seed}.jsonl", seed) for seed in range(5))


def tuned(paths, grid=None, policy="cloudfetch", **more):
    options = TuneOptions(metrics=tuple(paths), grid=grid, policy=policy, **more)
    return tune(options, SystemClock(), lambda _: None)


def run_cli(*arguments, cwd):
    env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    command = [sys.executable, "-m", "cfetch", "tune", "--policy", "cloudfetch", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=env | {"COLUMNS": "80"}, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_planted_optimum_is_found(tmp_path):
    """Times vary by half, so 1.5 flags files that are well: only 3 with the short padding is right."""
    paths = [
        write_run(tmp_path / f"{seed}.jsonl", seed, spread=0.4, slow_by=(15, 25), mean_s=40.0, files=400)
        for seed in range(6)
    ]
    grid = tmp_path / "grid.yaml"
    grid.write_text("multiplier: [1.1, 3, 8]\nquantile: 0.6\npadding: [1s, 10m]\n")
    found = tuned(paths, grid)
    planted = describe_setting(Setting(3.0, 0.6, 1.0))
    assert found.choice.recommended == planted
    assert min(found.settings, key=lambda one: one.ratio.mean).values == planted
    assert found.choice.ratio.high < 1
    assert found.choice.held_out.picks == [planted] * 5
    assert found.choice.held_out.ratio == found.choice.ratio
    assert len(found.settings) == 7  # the default took part


def test_what_is_found_holds_for_new_runs(tmp_path, five_runs):
    """The picked setting, replayed on runs that it was not picked on, is no worse than the default."""
    picked = tuned(five_runs).choice.recommended
    others = [str(write_run(tmp_path / f"o{seed}.jsonl", seed)) for seed in range(50, 55)]
    setting = Setting(*msgspec.structs.astuple(picked))
    assert setting != DEFAULT
    for result in replay_runs(others, read_recorded_runs, [setting, DEFAULT]):
        assert result.makespan_s[0] <= result.makespan_s[1]


def test_the_document_says_what_it_rests_on(five_runs):
    """Runs, their replay as it was, the grid; and it reads back."""
    found = tuned(five_runs)
    assert [run.instant for run in found.runs] == [f"run{seed}" for seed in range(5)]
    for run in found.runs:
        assert run.replayed_s == pytest.approx(run.recorded_s)
        assert (run.files, run.finished, run.workers) == (150, 150, WORKERS)
    assert {msgspec.structs.astuple(one.values) for one in found.settings} == set(DEFAULT_GRID)
    assert len(DEFAULT_GRID) == 36
    assert found.unmitigated.ratio.mean > 1.05
    assert found.unmitigated.flagged == 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=Tuning) == found
    assert found == tuned(five_runs)


def results(makespan_s, twice, settings):
    """Runs by hand: rows of makespans, and of bytes fetched twice."""
    return build_table(
        settings,
        settings.index(DEFAULT),
        [
            RunResult(
                source="s", instant="i", host=None, files=1, finished=1, workers=1, recorded_s=1.0, own_s=1.0,
                makespan_s=row, flagged=[1.0] * len(row),
                false_alarms=[0.0] * len(row), twice_bytes=list(twice),
            )
            for row in makespan_s
        ],
    )  # fmt: skip


NEAR, FAR = Setting(1.5, 0.6, 4.0), Setting(9.0, 0.1, 1.0)


@pytest.mark.parametrize(
    ("makespans", "twice", "expected"),
    [
        ([[10.0, 5.0, 8.0]] * 3, (0.0, 9.0, 0.0), FAR),
        ([[10.0, 5.0, 5.04]] * 3, (0.0, 9.0, 8.0), NEAR),
        ([[10.0, 5.0, 5.04]] * 3, (0.0, 9.0, 9.0), NEAR),
        ([[10.0, 5.0, 6.0], [10.0, 5.0, 4.5], [10.0, 5.0, 5.0]], (0.0, 9.0, 8.0), NEAR),
        ([[10.0, 10.0, 10.0]] * 3, (0.0, 0.0, 0.0), DEFAULT),
        ([[10.0, 10.0, 10.0], [10.0, 10.0, 10.0], [10.0, 5.0, 10.0]], (0.0, 9.0, 0.0), FAR),
    ],
    ids=["clear", "fewer bytes", "nearer", "now one, now the other", "no difference", "never better"],
)
def test_the_rule(makespans, twice, expected):
    """The lowest makespan; of those that cannot be told from it fewest bytes twice, then the nearest."""
    found = choose_setting(results(makespans, twice, [DEFAULT, FAR, NEAR]), 3)
    assert found.recommended == describe_setting(expected)


def test_held_out_runs_are_not_those_it_was_chosen_on():
    """Each fold's best fails on the run left out: the figure says so, though the choice looks good."""
    first, second, third = Setting(2.0, 0.6, 5.0), Setting(3.0, 0.6, 5.0), Setting(4.0, 0.6, 5.0)
    rows = [[10.0, 30.0, 1.0, 1.0], [10.0, 1.0, 30.0, 1.0], [10.0, 1.0, 1.0, 30.0]]
    found = choose_setting(results(rows, (0.0,) * 4, [DEFAULT, first, second, third]), 4)
    assert found.held_out.folds == 3
    assert found.held_out.picks == [
        describe_setting(first),
        describe_setting(second),
        describe_setting(third),
    ]
    assert found.held_out.ratio.mean == pytest.approx(3.0)


def test_the_front_has_no_setting_that_another_beats():
    """And of two that are equal only the nearer one."""
    found, others = score_settings(
        results([[10.0, 5.0, 5.0, 12.0]] * 3, (0.0, 9.0, 9.0, 3.0), [DEFAULT, FAR, NEAR, NEAR]), 3
    )
    assert [one.front for one in found] == [True, False, True]
    assert len(others) == 1
    assert others[0].ratio.mean == pytest.approx(1.2)


def test_intervals_cover_the_spread_of_the_runs():
    """Runs alike: a point. Runs unlike: from below the mean to above it, within the extremes."""
    alike, _ = score_settings(results([[10.0, 5.0]] * 4, (0.0, 0.0), [DEFAULT, FAR]), 2)
    assert alike[1].ratio.low == alike[1].ratio.high == pytest.approx(0.5)
    differing, _ = score_settings(
        results([[10.0, low] for low in (2.0, 4.0, 6.0, 8.0)], (0.0, 0.0), [DEFAULT, FAR]), 2
    )
    one = differing[1].ratio
    assert 0.2 <= one.low < one.mean == pytest.approx(0.5)
    assert one.mean < one.high <= 0.8


def test_too_little_is_refused_with_a_reason(tmp_path, five_runs):
    """Two runs; too few files. Each says that the default stays."""
    with pytest.raises(
        UsageError, match=r"only 2 runs can be used, but 3 are needed.*the default stays: multiplier 1.5"
    ):
        tuned(five_runs[:2])
    small = [write_run(tmp_path / f"s{seed}.jsonl", seed, files=20) for seed in range(3)]
    with pytest.raises(UsageError, match="finished files in all runs: 60, but 100 are needed"):
        tuned(small)


def test_runs_in_which_nothing_was_slow_are_no_error(tmp_path):
    """They are a finding: the default stays."""
    well = [write_run(tmp_path / f"w{seed}.jsonl", seed, slow_share=0) for seed in range(3)]
    assert tuned(well).leave.startswith("nothing in these runs was slow enough")


def test_a_run_without_finished_files_is_left_out_by_name(tmp_path, five_runs):
    """The others still answer."""
    empty = write_run(tmp_path / "empty.jsonl", 7, files=3, slow_share=0)
    found = tuned([*five_runs, empty])
    assert len(found.runs) == 5
    assert [(one.name, one.reason) for one in found.left_out] == [
        (f"run7 of {empty}", "only 3 files finished")
    ]


def test_a_run_that_is_given_twice_counts_once(five_runs):
    """Else its weather would seem the usual one."""
    found = tuned([*five_runs, five_runs[2]])
    assert len(found.runs) == 5
    assert [one.reason for one in found.left_out] == ["given twice"]
    with pytest.raises(UsageError, match="only 2 runs can be used, but 3"):
        tuned([*five_runs[:2], five_runs[0]])


def test_hosts_get_a_choice_of_their_own_where_there_is_enough(tmp_path):
    """Two hosts with 150 files in each of three runs do; what only two runs know does not."""
    paths = [write_run(tmp_path / f"{seed}.jsonl", seed, files=300, hosts=2) for seed in range(3)]
    found = tuned([*paths, paths[0]])
    assert sorted(one.host for one in found.hosts) == ["h0", "h1"]
    assert {(one.runs, one.files) for one in found.hosts} == {(3, 450)}
    assert found.hosts_left_out == []
    more = [write_run(tmp_path / f"x{seed}.jsonl", seed, files=450, hosts=3) for seed in range(10, 12)]
    found = tuned([*paths, *more])
    assert [(one.name, one.reason) for one in found.hosts_left_out] == [
        ("h2", "100 finished files or more in only 2 of the 3 runs needed")
    ]


def test_the_written_file_is_a_configuration(tmp_path, five_runs):
    """It sets the three options and their policy, nothing else, and its comments name data and figures."""
    found = tuned(five_runs)
    path = tmp_path / "tuned.yaml"
    write_config(path, format_config(found, "2026-03-04"))
    resolved = resolve(flags={}, env={}, file=path)
    picked = found.choice.recommended
    settings = resolved.settings
    assert (settings.multiplier, settings.quantile, settings.padding) == msgspec.structs.astuple(picked)
    given = {name for name, origin in resolved.origins.items() if origin != "default"}
    assert given == {"multiplier", "quantile", "padding", "policy"}
    assert (settings.policy, load(path)["policy"], resolved.notes) == ("cloudfetch", "cloudfetch", ())
    text = path.read_text()
    for told in (
        "2026-03-04",
        "5 runs with 750 finished files, run0 to run4",
        f"{found.choice.ratio.mean:.3f} (",
    ):
        assert told in text
    with pytest.raises(LocalFault, match="name another with --out"):
        write_config(tmp_path / "absent" / "x.yaml", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "paddings: [1s]",
            "unknown key 'paddings'; keys of policy cloudfetch: multiplier, quantile, padding",
        ),
        ("padding: [1s, soon]", "padding: each value not a duration"),
        ("multiplier: [1]", "multiplier: each value must be above 1 and at most 1000"),
        ("quantile: [[0.5]]", "quantile: each value must be a number"),
        ("quantile: []", "quantile is an empty list"),
        (
            f"padding: [{', '.join(f'{one}s' for one in range(100))}]",
            "makes 1,200 settings; the most is 1,000",
        ),
    ],
)
def test_a_wrong_grid_is_refused(tmp_path, text, said):
    """Key and range are named."""
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"grid\.yaml") as refusal:
        read_grid(path)
    assert said in str(refusal.value)


def test_a_grid_has_all_combinations_and_the_usual_values_for_the_rest(tmp_path):
    """Doubles count once."""
    path = tmp_path / "grid.yaml"
    path.write_text("multiplier: [2, 3, 2.0]\npadding: 1m\n")
    assert read_grid(path) == tuple(Setting(m, q, 60.0) for m in (2.0, 3.0) for q in (0.4, 0.6, 0.8))


def test_progress_is_told_every_two_seconds(tmp_path):
    """By the clock that is passed in; a short job says nothing."""

    class Steps(SystemClock):
        def __init__(self, step_s):
            self.step_s, self.now_s = step_s, 0.0

        def monotonic(self):
            self.now_s += self.step_s
            return self.now_s

    paths = tuple(write_run(tmp_path / f"{seed}.jsonl", seed) for seed in range(5))
    grid = tmp_path / "grid.yaml"
    grid.write_text("multiplier: 3\n")
    lines: list[str] = []
    tune(TuneOptions(metrics=paths, grid=grid, policy="cloudfetch"), Steps(1.5), lines.append)
    assert lines[0] == "300 files read and replayed"
    assert 1 <= len(lines) <= 3
    lines.clear()
    tune(TuneOptions(metrics=paths, grid=grid, policy="cloudfetch"), Steps(0.1), lines.append)
    assert lines == []


def test_estimates_and_unusual_headers_are_borne(tmp_path, five_runs):
    """A header whose settings are nonsense counts as the default's; what was broken off is told."""
    path = five_runs[0]
    lines = path.read_bytes().splitlines()
    header = json.loads(lines[0])
    header["settings"] = {"mitigation": True, "padding": "x", "multiplier": None, "check_interval": -1}
    broken = attempt(1, 0.0, 9.0, size=1000, outcome="straggler", samples=[(1.0, 100), (8.0, 900)])
    rescued = record(999, 4_000_000, broken, attempt(2, 9.0, 13.0, size=4_000_000), instant="run0", host="h0")
    path.write_bytes(b"\n".join((json.dumps(header).encode(), *lines[1:], msgspec.json.encode(rescued))))
    found = tuned(five_runs)
    assert found.estimates.by_rate == 1
    assert (found.estimates.by_stall_rule, found.estimates.drawn) == (0, 0)


def test_the_view_fits_a_terminal_and_names_the_answer(five_runs):
    """80 columns; the recommended row is marked; without --out the flags are shown."""
    found = tuned(five_runs)
    console = Console(width=80, record=True, file=open(os.devnull, "w"), markup=False)  # noqa: SIM115
    console.print(view(found))
    text = console.export_text()
    console.file.close()
    assert max(map(len, text.splitlines())) <= 80
    assert "recommended: multiplier" in text
    assert "cfetch download MANIFEST --policy cloudfetch --multiplier" in text
    assert sum(line.lstrip().startswith("→") for line in text.splitlines()) == 2  # the row and the legend


def test_the_view_says_where_the_grid_ends(tmp_path, five_runs):
    """The least padding is the best that was tried, and perhaps not the best; below 0 there is nothing."""
    grid = tmp_path / "grid.yaml"
    grid.write_text("multiplier: 1.5\nquantile: 0.6\npadding: [2s, 4s]\n")
    assert edges(tuned(five_runs, grid)) == ["padding 2s is the least of the grid; --grid can try beyond it"]
    grid.write_text("multiplier: 1.5\nquantile: 0.6\npadding: [0s, 4s]\n")
    found = tuned(five_runs, grid)
    assert found.choice.recommended.padding_s == 0
    assert edges(found) == []


def edges(found):
    console = Console(width=80, record=True, file=open(os.devnull, "w"), markup=False)  # noqa: SIM115
    console.print(view(found))
    console.file.close()
    return [line.strip() for line in console.export_text().splitlines() if "of the grid" in line]


def test_command_writes_the_file_and_one_document(tmp_path, five_runs):
    """--json: one document on stdout, nothing else."""
    done = run_cli(*five_runs, "--json", "--out", "tuned.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["schema"] == "cfetch.tuning/1"
    assert found == json.loads(msgspec.json.encode(tuned(five_runs)))
    assert (tmp_path / "tuned.yaml").exists()
    done = run_cli(*five_runs, cwd=tmp_path)
    assert done.returncode == 0
    assert "recommended: multiplier" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["absent.jsonl"], 2, "absent.jsonl: cannot read the metrics"),
        (["0.jsonl"], 2, "the default stays"),
        (["0.jsonl", "1.jsonl", "2.jsonl", "--grid", "absent.yaml"], 2, "cannot read absent.yaml"),
        (["0.jsonl", "1.jsonl", "2.jsonl", "--out", "absent/t.yaml"], 3, "cannot write absent/t.yaml"),
        (["0.jsonl", "--spark-master", "local[1]"], 2, "--spark-master is for --engine spark"),
    ],
    ids=["no file", "too few", "no grid", "no room", "no engine"],
)
def test_command_errors_are_one_message(tmp_path, five_runs, arguments, code, said):
    """An exit code and a sentence, no traceback."""
    done = run_cli(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def real_run(folder, seed):
    """40 files of 64 KiB by the real command, two of them at 20 KiB/s: 3.2 s, where no other takes long.

    By the formula: idle slots would take what is left of the slow ones.
    """
    slow = FaultRule(fraction=0.05, fault=Fault(kind="slow", rate_bps=20 * 1024.0, first=1))
    group = Group(prefix="f-", count=40, size_bytes=64 << 10)
    scenario = Scenario(name="tune", seed=seed, groups=(group,), rules=(slow,))
    metrics = folder / f"{seed}.jsonl"
    with OriginProcess(scenario.spec(faulty=True)) as origin:
        (folder / f"{seed}.json").write_bytes(scenario.manifest(origin.url))
        command = [*CFETCH, "download", str(folder / f"{seed}.json"), "--to", str(folder / str(seed))]
        done = run_child(
            [*command, "--metrics", str(metrics), "--quiet", "--policy", "cloudfetch"], limit_s=60
        )
    assert done.exit_code == 0, done.error
    return metrics


def test_metrics_of_real_downloads_are_learned_from(tmp_path):
    """The default's padding of 5 s lets every slow file crawl to its end; a shorter one would not have.

    One run after another, and seconds apart: a busy machine must not make healthy files look slow.
    """
    paths = [real_run(tmp_path, seed) for seed in range(3)]
    grid = tmp_path / "grid.yaml"
    grid.write_text("multiplier: 1.5\nquantile: 0.6\npadding: [1s, 5s]\n")
    found = tuned(paths, grid)
    assert found.choice.recommended.padding_s == 1.0
    assert found.choice.ratio.high < 1
    assert [(run.files, run.finished) for run in found.runs] == [(40, 40)] * 3


@pytest.mark.usefixtures("spark")
def test_both_engines_answer_alike(five_runs):
    """To the last bit, but for the engine's name."""
    local = tuned(five_runs)
    remote = tuned(five_runs, engine="spark")
    assert msgspec.structs.replace(remote, engine="local") == msgspec.structs.replace(
        local,
        runs=[
            msgspec.structs.replace(run, source=str(path))
            for run, path in zip(local.runs, five_runs, strict=True)
        ],
    )


@pytest.mark.usefixtures("spark")
def test_a_task_that_cannot_read_its_file_says_which(tmp_path, five_runs):
    """As the local engine does."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no metrics\n")
    with pytest.raises(UsageError, match=r"bad\.jsonl:1: not cfetch metrics"):
        tune(TuneOptions(metrics=(*five_runs, bad), engine="spark"), SystemClock())
    with pytest.raises(UsageError, match=r"absent\.jsonl: cannot read the metrics"):
        tune(TuneOptions(metrics=(tmp_path / "absent.jsonl",), engine="spark"), SystemClock())


def test_large_files_are_tasks_of_their_own_and_order_is_kept(spark, five_runs):
    """Two to a task, then each alone: results come in the order in which the files were given."""
    paths = [str(path) for path in reversed(five_runs)]
    here = list(replay_runs(paths, read_recorded_runs, DEFAULT_GRID))
    for size in (CHUNK_BYTES // 2, CHUNK_BYTES):
        assert (
            replay_on_spark(spark, [(path, size) for path in paths], read_recorded_runs, DEFAULT_GRID) == here
        )


def test_neighbours_share_a_task_until_there_is_enough_for_it():
    """A task costs 50 ms: it gets 8 MiB of metrics or more, unless there are no more."""
    items = {"a": 0.5, "b": 0.5, "c": 1.5, "d": 0.1}
    assert group_into_tasks(items, items.__getitem__) == [["a", "b"], ["c"], ["d"]]


def broken(path):
    raise RuntimeError(f"the disk of {path} is gone")


def test_a_task_that_breaks_is_one_message(spark):
    """Spark's own words, a page of them, stay in its log."""
    with pytest.raises(LocalFault, match="Spark could not replay the runs") as fault:
        replay_on_spark(spark, [("x", 1)], broken, DEFAULT_GRID)
    assert "gone" not in str(fault.value)


def test_small_hosts_are_not_replayed_alone(tmp_path):
    """A hundred files of a host in a run, or it is only part of the whole."""
    path = write_run(tmp_path / "x.jsonl", 1, files=300, hosts=3)
    assert [one.host for one in read_recorded_runs(str(path))] == [None, "h0", "h1", "h2"]
    path = write_run(tmp_path / "y.jsonl", 1, files=300, hosts=4)
    assert [one.host for one in read_recorded_runs(str(path))] == [None]


def test_infinity_never_reaches_the_document(five_runs):
    """JSON has none."""
    assert all(math.isfinite(one.makespan_s.mean) for one in chosen_settings(five_runs))


def chosen_settings(paths):
    columns = [*DEFAULT_GRID, DEFAULT._replace(padding_s=math.inf)]
    made = list(replay_runs(map(str, paths), read_recorded_runs, columns))
    return recommend(made, DEFAULT_GRID, "local").settings
