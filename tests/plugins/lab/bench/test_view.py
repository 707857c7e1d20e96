"""The bench in a terminal: the tail at a glance, within 80 columns."""

import io

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from cfetch.plugins.lab.views.bench_document import Comparison, Contender, Figures, Machine, Trial
from cfetch.plugins.lab.views.bench_view import WIDTH, picture, sum_up, view


def one_run(name, finishes, **more):
    fields = {
        "name": name,
        "wall_s": finishes[-1] if finishes else 1.0,
        "makespan_s": 0.5,
        "cpu_s": 1.0,
        "exit_code": 0,
        "done": len(finishes),
        "failed": 0,
        "wrong": 0,
        "p50_s": 0.1,
        "p95_s": 0.2,
        "p99_s": 0.3,
        "max_s": 0.4,
        "mitigations": 0,
        "false_alarms": 0,
        "retries": 0,
        "wasted_bytes": 0,
        "slowdown": 1.0,
        "finishes_s": finishes,
    }
    return Figures(**{**fields, **more})


FAST = [i / 500 for i in range(1, 491)]
RUNS = [
    one_run("ideal", FAST),
    one_run("none", [*FAST, *[64.0] * 10], slowdown=65.3),
    one_run("mitigated", [*FAST, *[2.5] * 10], mitigations=10, wasted_bytes=2048),
]


def compare(runs, contenders=()):
    return Comparison(
        version="1",
        machine=Machine(python="3.11", platform="p", cpus=2),
        scenario="s",
        description="d",
        seed=1,
        concurrency=16,
        policy="adaptive",
        options={"padding": "1s"},
        files=500,
        size_bytes=500 << 20,
        faulty=10,
        runs=runs,
        contenders=list(contenders),
        gain=25.6,
        must=None,
        broken=[],
    )


def render(runs, contenders=()):
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(view(compare(runs, contenders)))
    return out.getvalue()


def test_the_tail_is_long_only_where_the_job_waited():
    """The unmitigated line runs to the end of the axis through dots; the others end early."""
    ideal, none, mitigated, *_ = (line.plain for line in picture(RUNS, "adaptive"))
    assert none.count("·") == WIDTH - 2
    assert "·" not in ideal
    assert mitigated.count("·") <= 2


def test_the_mitigated_run_goes_by_its_policy_s_name():
    """In the picture, above the numbers, and with the workload."""
    assert picture(RUNS, "adaptive")[2].plain.startswith("adaptive ")
    lines = render(RUNS).splitlines()
    assert any(line.split() == ["ideal", "no", "mitigation", "adaptive"] for line in lines)
    assert "policy adaptive, padding 1s" in " ".join(" ".join(lines).split())


def colours(line):
    """The colours of a line's columns in their order, each once."""
    return list(dict.fromkeys(str(span.style).removeprefix("dim ") for span in line.spans[:-1]))


def test_one_late_file_is_seen_and_red():
    """A single file after thousands still has a column, in red."""
    line = picture([RUNS[0], one_run("none", [0.01] * 9999 + [10.0])], "adaptive")[1]
    last = line.plain.rindex("▁")
    assert any(span.start <= last < span.end and "red" in str(span.style) for span in line.spans)


def test_colours_tell_how_late_it_is_against_the_ideal_run():
    """Nothing is wrong in the ideal run, up to its last column; others warn up to twice its time."""
    ideal, none, mitigated = picture(
        [RUNS[0], one_run("none", [5.0]), one_run("mitigated", [1.5])], "adaptive"
    )[:3]
    assert (colours(ideal), colours(mitigated)) == (["green"], ["green", "yellow"])
    assert colours(none) == ["green", "yellow", "red"]


def test_a_legend_explains_the_picture():
    """Every sign and colour that may appear, and where the axis ends."""
    legend = " ".join(line.plain for line in picture(RUNS, "adaptive")[-2:])
    for word in ("█", "▁", "·", "green", "yellow", "red", "slowest run's last"):
        assert word in legend


@pytest.mark.parametrize("last", [0.001, 1.0, 1.1, 3.3, 63.0, 1e6])
def test_every_line_fits_80_columns(last):
    """Whatever the numbers, and however they round."""
    runs = [
        one_run("ideal", [last / 3, last]),
        one_run("none", [last / 7, last]),
        one_run("mitigated", [last]),
    ]
    assert all(cell_len(line.plain) <= 80 for line in picture(runs, "cloudfetch"))


def test_a_run_without_a_single_file_is_an_empty_line():
    """Nothing finished, nothing drawn, no crash."""
    assert picture([one_run("none", [])], "adaptive")[0].plain.split() == ["no", "mitigation", "1.0s"]


def test_the_table_has_the_numbers():
    """Slowdown, mitigations and waste stand in their columns."""
    text = render(RUNS)
    rows = {line.split("  ")[0]: line.split()[-3:] for line in text.splitlines() if line}
    assert rows["slowdown against ideal"] == ["1.0x", "65.3x", "1.0x"]
    assert rows["attempts cancelled"] == ["0", "0", "10"]
    assert "2.0 KiB" in text
    assert "padding 1s" in text


def test_wrong_and_failed_files_stand_out():
    """They are named beside the number of files done."""
    assert "490, 3 failed, 7 wrong" in render([one_run("ideal", FAST, failed=3, wrong=7), *RUNS[1:]])


def test_contenders_with_their_commands_and_their_faults():
    """A killed one says so and so does one that left files out; every command line is printed."""

    def trial(wall, killed, right):
        return Trial(wall_s=wall, cpu_s=1.0, exit_code=0, killed=killed, right=right)

    slow = Contender(
        name="tool",
        version="9.9",
        command="tool -x O",
        wall_s=20.0,
        cpu_s=1.0,
        trials=[trial(20.0, True, 498)],
    )
    text = render(RUNS, [slow])
    assert "killed, >20.00 s" in text
    assert "498/500" in text
    assert "tool -x O" in text
    assert max(map(len, text.splitlines())) <= 80


PARTS = "connections bring parts of 1 file."


@pytest.mark.parametrize(
    ("more", "helped"),
    [
        ({"mitigations": 1}, " It cancelled 1 slow attempt and went on over fresh connections."),
        ({"in_segments": 4}, " It let further connections bring parts of 4 files."),
        (
            {"mitigations": 2, "in_segments": 1},
            " It cancelled 2 slow attempts and went on over fresh connections, and it let further " + PARTS,
        ),
        ({}, ""),
    ],
)
def test_the_last_sentence_says_what_helped(more, helped):
    """A table of figures alone left a reader to guess."""
    runs = [*RUNS[:2], one_run("mitigated", [*FAST, 2.5], **more)]
    times = "2.5s with policy adaptive, 1m 04s without, 1.0s from a server without faults"
    words = f"Mitigation made this workload 25.6 times faster: {times}.{helped}"
    assert sum_up(compare(runs)) == words
    assert " ".join(render(runs).split()).endswith(words)
    none = msgspec.structs.replace(compare(runs), gain=1.04)
    assert sum_up(none) == f"Mitigation did not make this workload faster: {times}."
