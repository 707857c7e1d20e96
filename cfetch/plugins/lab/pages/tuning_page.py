"""The page of a tuning: the answer, every setting against the default, and the runs that were replayed."""

from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.lab.views.tune_view import draw_answer, draw_grounds, ratio_text
from cfetch.plugins.lab.views.tuning_document import Replayed, SettingScore, Tuning, describe_values
from cfetch.show.format import count, duration, size
from cfetch.show.page.document import Cell, Dot, DotRow, Dots, Lines, Page, Part, Table

MOST_DOTS = 40  # settings in the chart; the table has all


def make_tuning_page(tuning: Tuning) -> Page:
    """The page of ``tuning``."""
    ranked = sorted(tuning.settings, key=lambda score: score.ratio.mean)
    charted = [score for score in ranked if score.front or _mark_of(score, tuning)] or ranked
    lines = [line.plain.strip() for line in draw_answer(tuning)]
    grounds = [line.plain.strip() for line in draw_grounds(tuning)]
    part = Part(
        title="Overview",
        sections=[
            Lines(title="The answer", lines=lines),
            Dots(
                title="Makespan against the default's",
                note="settings that no other beats; middle 95 % of a bootstrap over runs; below 1 is faster",
                rows=[_make_dots(score, tuning) for score in charted[:MOST_DOTS]],
                mark=1.0,
                mark_name="the default",
            ),
            Table(
                title="All settings",
                columns=["setting", ">makespan", ">against the default", ">false alarms", ">twice", "front"],
                rows=[_make_row(score, tuning) for score in ranked],
                folded=True,
            ),
            Lines(title="From", lines=[*grounds, *tuning.remarks]),
            Table(
                title="Runs",
                columns=["run", ">files", ">finished", ">workers", "policy", ">recorded", ">replayed"],
                rows=[_make_run_row(run) for run in tuning.runs],
                folded=True,
            ),
        ],
    )
    return Page(title=f"cfetch tune: policy {tuning.policy}", note="", version=__version__, parts=[part])


def _mark_of(score: SettingScore, tuning: Tuning) -> str:
    if not tuning.leave and score.values == tuning.choice.recommended:
        return "→ recommended"
    return "= default" if score.values == tuning.default else ""


def _make_dots(score: SettingScore, tuning: Tuning) -> DotRow:
    mark = _mark_of(score, tuning)
    ratio = score.ratio
    return DotRow(
        name=" ".join(filter(None, (describe_values(score.values), mark))),
        dots=[Dot(value=ratio.mean, low=ratio.low, high=ratio.high, text=f"{ratio.mean:.2f}")],
        tone="good" if mark.startswith("→") else "",
    )


def _make_row(score: SettingScore, tuning: Tuning) -> list[Cell | str]:
    return [
        " ".join(filter(None, (describe_values(score.values), _mark_of(score, tuning)))),
        duration(score.makespan_s.mean),
        ratio_text(score.ratio),
        f"{score.false_alarms.mean:.1f}",
        size(score.twice_bytes.mean),
        "yes" if score.front else "",
    ]


def _make_run_row(run: Replayed) -> list[Cell | str]:
    return [
        printable(run.source),
        count(run.files),
        count(run.finished),
        count(run.workers),
        run.policy,
        duration(run.recorded_s),
        duration(run.replayed_s),
    ]
