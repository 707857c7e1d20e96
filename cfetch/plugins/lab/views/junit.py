"""A bench as a JUnit report, which CI systems show as tests: one for each run, and one for the bounds."""

from xml.sax.saxutils import escape, quoteattr

from cfetch.base.secret import printable
from cfetch.plugins.lab.views.bench_document import Comparison, Figures

SUITE = "cfetch bench"
_NAMES = {"ideal": "without faults", "none": "faults, without mitigation", "mitigated": "faults, mitigated"}


def make_junit(comparison: Comparison) -> str:
    """The report. A run's test fails if files are wrong that the run calls done."""
    lines = [_make_case(_NAMES[run.name], run.wall_s, _find_wrong(run)) for run in comparison.runs]
    asked = "" if comparison.must is None else f", {comparison.must:g} asked for"
    bounds = f"{comparison.gain:.2f} times faster with mitigation{asked}; all bounds"
    lines.append(_make_case(bounds, 0.0, comparison.broken))
    failures = sum("<failure" in line for line in lines)
    took_s = sum(run.wall_s for run in comparison.runs)
    about = {
        "cfetch": comparison.version,
        "scenario": comparison.scenario,
        "policy": comparison.policy,
        "gain": f"{comparison.gain:.3f}",
        "python": comparison.machine.python,
        "platform": comparison.machine.platform,
        "cpus": str(comparison.machine.cpus),
    }
    properties = [f"<property name={_quote(name)} value={_quote(value)}/>" for name, value in about.items()]
    head = f'tests="{len(lines)}" failures="{failures}" errors="0" time="{took_s:.3f}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites {head}>",
            f"<testsuite name={_quote(SUITE)} {head}>",
            "<properties>",
            *properties,
            "</properties>",
            *lines,
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _make_case(name: str, took_s: float, broken: list[str]) -> str:
    case = f'<testcase classname={_quote(SUITE)} name={_quote(name)} time="{took_s:.3f}"'
    if not broken:
        return f"{case}/>"
    shown = [printable(sentence, 1000) for sentence in broken]
    return f"{case}><failure message={_quote(shown[0])}>{escape('; '.join(shown))}</failure></testcase>"


def _find_wrong(run: Figures) -> list[str]:
    wrong = run.wrong - run.failed
    return [f"{wrong:,} wrong or missing files are called done"] if wrong > 0 else []


def _quote(text: str) -> str:
    return quoteattr(printable(text, 1000))
