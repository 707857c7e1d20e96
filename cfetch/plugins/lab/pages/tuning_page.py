"""The page of a tuning: the answer, every setting against the default, and the runs that were replayed."""

from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.lab.views.tune_view import draw_answer, draw_grounds, ratio_text
from cfetch.plugins.lab.views.tuning_document import (
    Replayed,
    SettingScore,
    Tuning,
    describe_values,
    format_values,
)
from cfetch.show.format import count, duration, size
from cfetch.show.page.document import (
    AnySection,
    Cell,
    Dot,
    DotRow,
    Dots,
    Lines,
    PageDocument,
    PagePart,
    PageTable,
    PageVerdict,
)

MOST_DOTS = 40  # settings in the chart; the table has all


def make_tuning_page(tuning: Tuning) -> PageDocument:
    """The page of ``tuning``."""
    ranked = sorted(tuning.settings, key=lambda score: score.ratio.mean)
    charted = [score for score in ranked if score.front or _mark_of(score, tuning)] or ranked
    grounds = [line.plain.strip() for line in draw_grounds(tuning)]
    part = PagePart(
        title="Overview",
        sections=[
            _judge(tuning),
            *_list_command(tuning),
            Dots(
                title="Makespan against the default's",
                note="settings that no other beats, each with its 95 % interval over the runs; "
                "what is left of the line is faster than the default",
                rows=[_make_dots(score, tuning) for score in charted[:MOST_DOTS]],
                mark=1.0,
                mark_name="the default",
            ),
            PageTable(
                title="All settings",
                columns=[
                    "setting",
                    ">makespan",
                    ">against the default",
                    ">false alarms",
                    ">wasted",
                    "unbeaten",
                ],
                rows=[_make_row(score, tuning) for score in ranked],
            ),
            Lines(title="Grounds", lines=[*_list_details(tuning), *grounds]),
            PageTable(
                title="Runs",
                columns=["run", ">files", ">finished", ">workers", "policy", ">recorded", ">replayed"],
                rows=[_make_run_row(run) for run in tuning.runs],
                folded=True,
            ),
        ],
    )
    return PageDocument(
        title=f"cfetch tune: policy {tuning.policy}", note="", version=__version__, parts=[part]
    )


def _judge(tuning: Tuning) -> PageVerdict:
    """What to set, and what that gains."""
    choice = tuning.choice
    if tuning.leave:
        text = f"Leave the default, {describe_values(tuning.default)}: {tuning.leave}."
        return PageVerdict(title="Verdict", text=text)
    text = (
        f"Set {describe_values(choice.recommended)}: such a run takes about "
        f"{duration(choice.promise_s.mean)}, {_less(choice.ratio.mean)} than with the default; "
        f"on runs that it was not chosen by, it was {_less(choice.held_out.ratio.mean)}."
    )
    return PageVerdict(title="Verdict", text=text, tone="good" if choice.ratio.mean < 1 else "")


def _less(ratio: float) -> str:
    return f"{abs(1 - ratio):.0%} {'less' if ratio <= 1 else 'more'}"


def _list_command(tuning: Tuning) -> list[AnySection]:
    """The command with the recommended values, and each beside the default."""
    if tuning.leave:
        return []
    values, default = format_values(tuning.choice.recommended), format_values(tuning.default)
    flags = " ".join(f"--{name} {text}" for name, text in values.items())
    rows: list[list[Cell | str]] = [[name, text, default.get(name, "")] for name, text in values.items()]
    command = f"cfetch download MANIFEST --policy {tuning.policy} {flags}"
    return [
        PageTable(
            title="To set", columns=["option", ">value", ">default"], rows=rows, command=command, small=True
        )
    ]


def _list_details(tuning: Tuning) -> list[str]:
    """The lines of the answer below its first: what it was compared with."""
    _, *others = [line.plain.strip() for line in draw_answer(tuning)]
    return [line for line in others if line != tuning.leave]


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
