"""The replay of the adaptive policy over recorded progress, and what `cfetch tune` makes of it."""

import subprocess
import sys

import msgspec
import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.document import load
from cfetch.base.config.layers import resolve
from cfetch.base.errors import ConfigError, UsageError
from cfetch.plugins.lab.tuning.adaptive_replay import play, prepare_stage
from cfetch.plugins.lab.tuning.curves import TuningCurve, record_curves
from cfetch.plugins.lab.tuning.use_case import TuneOptions, tune
from cfetch.plugins.lab.views.tuning_document import Values
from cfetch.show.metrics import RunHeader
from tests.show.records import attempt, record

SIZE = 100_000_000
USUAL_S = 100.0
WORKERS = 4


def lay_out(seconds, make_attempts=None):
    """Records of files that took so long, on four workers, in the order of their starts."""
    free, records = [0.0] * WORKERS, []
    for number, lasting_s in enumerate(seconds):
        begin_s = min(free)
        end_s = free[free.index(begin_s)] = begin_s + lasting_s
        tries = (make_attempts or whole)(number, begin_s, end_s)
        records.append(record(number, SIZE, *tries, instant="i", host="h"))
    return records


def whole(_, begin_s, end_s):
    """One attempt at a steady rate."""
    first = attempt(1, begin_s, end_s, size=SIZE, samples=[(end_s, SIZE)])
    return (msgspec.structs.replace(first, first_byte_s=begin_s),)


def stage_of(records, segments=1):
    return prepare_stage(record_curves(records), stall_timeout_s=30.0, segments=segments)


def write(path, records, **settings):
    """A metrics file of a run that had these settings; by default the adaptive policy's."""
    had = {"policy": "adaptive", "multiplier": 1.5, "stall_timeout": 30.0} | settings
    header = RunHeader(
        instant=path.stem, wall_start="2026-01-01T00:00:00Z", version="0", host="here", files=len(records),
        concurrency=WORKERS, settings=had,
    )  # fmt: skip
    path.write_bytes(b"\n".join(map(msgspec.json.encode, (header, *records))) + b"\n")
    return path


def waves(seed, *last_s):
    """Six waves of four files that take a little more or less than usual, and then the last ones."""
    return [USUAL_S + (n * 7 + seed * 3) % 5 for n in range(6 * WORKERS)] + list(last_s)


def shorten(records, factor):
    """The files of a world in which all takes ``factor`` times as long: a replay costs what its run lasts."""
    shorter = []
    for entry in records:
        tries = [scale(tried, factor) for tried in entry.attempts]
        shorter.append(
            msgspec.structs.replace(entry, attempts=tries, start_s=tries[0].start_s, end_s=tries[-1].end_s)
        )
    return shorter


def scale(tried, factor):
    first_s = tried.first_byte_s
    return msgspec.structs.replace(
        tried,
        start_s=tried.start_s * factor,
        first_byte_s=None if first_s is None else first_s * factor,
        end_s=tried.end_s * factor,
        samples=[(sampled_s * factor, received) for sampled_s, received in tried.samples],
    )


def run_tune(*paths, **options):
    return tune(TuneOptions(metrics=tuple(paths), **options), SystemClock())


def test_a_curve_goes_on_at_its_last_rate():
    """Between points it is a line; silence stays silence."""
    curve = TuningCurve((0.0, 1.0, 3.0), (0, 0, 200), 1.0, 50.0, is_cut=True)
    assert [curve.count_bytes(age_s, 1000) for age_s in (0.0, 0.5, 2.0, 3.0, 5.0, 99.0)] == [
        0, 0, 100, 200, 300, 1000,
    ]  # fmt: skip
    assert [curve.compute_end_s(wanted) for wanted in (0, 100, 200, 300)] == [0.0, 2.0, 3.0, 5.0]
    assert curve._replace(rest_bps=0.0).compute_end_s(300) == float("inf")


def test_a_run_without_mitigation_is_replayed_as_it_was():
    """Its makespan to the tick, nothing flagged."""
    stage = stage_of(lay_out(waves(0, 900.0)))
    played = play(stage, None)
    assert (stage.slots, played.flagged) == (WORKERS, 0)
    assert played.makespan_s == pytest.approx(stage.recorded_s, rel=0.01)


def test_the_policy_itself_judges_the_recorded_progress():
    """A file at a tenth of the usual rate is rescued within seconds, and its bytes stay where they did."""
    stage = stage_of(lay_out(waves(0, 1000.0)))
    played = play(stage, 1.5)
    assert (played.flagged, played.false_alarms, played.twice_bytes) == (1, 0, 0)
    assert played.makespan_s < 0.6 * stage.recorded_s


def test_the_multiplier_decides_who_is_slow():
    """At 1.6 times the usual: far too slow for 1.1, and not for 3."""
    stage = stage_of(lay_out(waves(0, 160.0)))
    assert [play(stage, multiplier).flagged for multiplier in (1.1, 3.0)] == [1, 0]


def rescued(number, begin_s, end_s):
    """The last file was cancelled after five seconds at a tenth of the rate, and went on from there."""
    if number < 6 * WORKERS:
        return whole(number, begin_s, end_s)
    cut_s, got = begin_s + 5.0, SIZE // 200
    first = attempt(
        1, begin_s, cut_s, size=got, outcome="straggler", samples=[(begin_s + 2.5, got // 2), (cut_s, got)]
    )
    second = attempt(2, cut_s, end_s, from_byte=got, size=SIZE - got, samples=[(end_s, SIZE - got)])
    return (
        msgspec.structs.replace(first, first_byte_s=begin_s),
        msgspec.structs.replace(second, first_byte_s=cut_s),
    )


def test_a_recorded_rescue_is_repeated_and_its_absence_estimated():
    """The file's own second attempt follows; left alone, the first goes on at its rate to the end."""
    stage = stage_of(lay_out(waves(0, USUAL_S + 5), rescued))
    assert play(stage, 1.5).makespan_s == pytest.approx(stage.recorded_s, rel=0.02)
    alone_s = 6 * USUAL_S + 1000
    assert play(stage, None).makespan_s == pytest.approx(alone_s, rel=0.05)


def test_idle_places_help_the_last_file_as_in_a_run():
    """Four connections bring what one would take a hundred seconds for."""
    records = lay_out([USUAL_S] * (6 * WORKERS + 1))
    alone, helped = (play(stage_of(records, segments), 1.5) for segments in (1, 4))
    assert alone.makespan_s - helped.makespan_s == pytest.approx(USUAL_S * 3 / 4, abs=5)
    assert (helped.flagged, helped.twice_bytes) == (0, 0)


def test_an_attempt_that_helpers_overtook_is_judged_and_cut():
    """Left alone it would have gone on at its rate; it is no failed try."""
    slow = attempt(1, 0.0, 10.0, size=SIZE // 100, outcome="error", samples=[(10.0, SIZE // 100)])
    slow = msgspec.structs.replace(slow, first_byte_s=0.0, error="not needed any more", to_byte=SIZE // 2)
    helper = attempt(2, 5.0, 10.0, from_byte=SIZE // 100, size=SIZE, helper=True)
    (file,) = record_curves([record(0, SIZE, slow, helper, instant="i", host="h")])
    (curve,) = file.curves
    assert curve.is_cut
    assert curve.compute_end_s(SIZE) == pytest.approx(1000, rel=0.02)


def test_a_silent_attempt_ends_by_the_stall_rule():
    """Where nobody mitigates, thirty seconds later, and the next attempt follows."""

    def silent(number, begin_s, end_s):
        if number < 6 * WORKERS:
            return whole(number, begin_s, end_s)
        first = attempt(1, begin_s, begin_s + 2, size=0, outcome="straggler", samples=[])
        second = attempt(2, begin_s + 2, end_s, size=SIZE, samples=[(end_s, SIZE)])
        return msgspec.structs.replace(first, first_byte_s=None), second

    stage = stage_of(lay_out(waves(0, USUAL_S + 2), silent))
    assert play(stage, None).makespan_s - play(stage, 1.5).makespan_s == pytest.approx(28, abs=3)


def test_runs_under_the_adaptive_policy_are_tuned_for_it(tmp_path):
    """The values that are better are for the policy that the runs had, and the file chooses no other."""
    paths = [
        write(
            tmp_path / f"{seed}.jsonl",
            shorten(lay_out(waves(seed, 165.0)), 0.06),
            mitigation=False,
            segments=1,
        )
        for seed in range(5)
    ]
    grid = tmp_path / "grid.yaml"
    grid.write_text("multiplier: [1.1, 3]\n")
    tuning = run_tune(*paths, grid=grid)
    assert (tuning.policy, tuning.leave, tuning.default) == ("adaptive", "", Values(multiplier=1.5))
    assert tuning.choice.recommended == Values(multiplier=1.1)
    assert tuning.choice.ratio.high < 0.96
    out = tmp_path / "tuned.yaml"
    done = run_command(*paths, "--grid", grid, "--out", out)
    assert done.returncode == 0, done.stderr
    assert load(out) == {"policy": "adaptive", "multiplier": "1.1"}
    settings = resolve(flags={}, env={}, file=out).settings
    assert (settings.policy, settings.multiplier) == ("adaptive", 1.1)
    assert "written to" in done.stdout


def run_command(*arguments):
    command = [sys.executable, "-m", "cfetch", "tune", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_what_makes_no_difference_is_left_alone(tmp_path):
    """Nothing is written, and the command says why."""
    paths = [
        write(tmp_path / f"{seed}.jsonl", shorten(lay_out(waves(seed, USUAL_S + 5), rescued), 0.06))
        for seed in range(5)
    ]
    out = tmp_path / "tuned.yaml"
    done = run_command(*paths, "--out", out)
    assert (done.returncode, out.exists()) == (0, False), done.stderr
    assert f"nothing is written to {out}: no other setting is better than the default" in done.stderr
    assert done.stdout.startswith("leave the default: multiplier 1.5")
    text = " ".join(done.stdout.split())
    assert "adaptive cancelled 5 attempts of the recorded runs: " in text
    assert "only the multiplier can be tuned by replay" in text


def test_the_formula_is_held_against_what_was_really_run(tmp_path):
    """It would have waited for its padding, so its best values are none to change the policy for."""
    paths = [
        write(tmp_path / f"{seed}.jsonl", shorten(lay_out(waves(seed, USUAL_S + 5), rescued), 0.02))
        for seed in range(5)
    ]
    tuning = run_tune(*paths, policy="cloudfetch")
    assert tuning.policy == "cloudfetch"
    assert tuning.choice.recorded.mean > 1
    assert "times as long as they did" in tuning.leave
    assert [run.replayed_s for run in tuning.runs] == [None] * 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"policy": "cloudfetch"}, "recorded under policy cloudfetch"),
        ({"mitigation": True}, "replayed as it was set it takes"),
    ],
)
def test_a_run_that_the_replay_cannot_tell_is_left_out(tmp_path, change, reason):
    """Another policy's, and one in which the policy did not do what it does."""
    records = shorten(lay_out(waves(0, 1000.0)), 0.2)
    path = write(tmp_path / "odd.jsonl", records, **change)
    with pytest.raises(UsageError, match="only 0 runs can be used, but 3 are needed") as caught:
        run_tune(path, policy="adaptive")
    assert reason in str(caught.value)


def test_runs_of_a_few_seconds_are_left_out(tmp_path):
    """Equal ones differ by more than a setting changes; the formula's replay takes them as before."""
    path = write(tmp_path / "short.jsonl", shorten(lay_out(waves(0, 100.0)), 0.005))
    with pytest.raises(UsageError, match=r"took 3\.\d s; equal runs of under 5 s differ"):
        run_tune(path, policy="adaptive")
    with pytest.raises(UsageError) as caught:
        run_tune(path, policy="cloudfetch")
    assert "under 5 s" not in str(caught.value)


def test_how_much_equal_runs_differ_is_said(tmp_path):
    """No promise for one run is closer than that."""
    paths = [
        write(
            tmp_path / f"{n}.jsonl",
            shorten(lay_out(waves(n, 900.0)), 0.1 + n / 100),
            mitigation=False,
        )
        for n in range(4)
    ]
    (said,) = [remark for remark in run_tune(*paths, policy="adaptive").remarks if "a single run" in remark]
    assert said.startswith("these runs of 25 files each took ")


def test_a_formula_with_another_baseline_is_not_replayed(tmp_path):
    """The replay knows the median only."""
    path = write(tmp_path / "p.jsonl", lay_out(waves(0)), policy="cloudfetch", percentile=95)
    with pytest.raises(UsageError, match="recorded with percentile 95"):
        run_tune(path)


def test_a_grid_of_values_that_the_policy_does_not_read_is_refused(tmp_path):
    """Quantile and padding are the formula's."""
    grid = tmp_path / "grid.yaml"
    grid.write_text("padding: [1s]\n")
    path = write(tmp_path / "a.jsonl", lay_out(waves(0)))
    with pytest.raises(ConfigError, match="unknown key 'padding'; keys of policy adaptive: multiplier"):
        run_tune(path, grid=grid)
