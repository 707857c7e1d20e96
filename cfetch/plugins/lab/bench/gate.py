"""The bench as a gate: states in words the bounds that the measured runs break. Pure.

Three bounds always apply: every byte is right, mitigation fails no file that would have come without it, and
it wastes few bytes. The required gain depends on the workload, so the caller states it.
"""

from collections.abc import Sequence

from cfetch.plugins.lab.views.bench_document import Figures
from cfetch.show.format import plural

MOST_WASTED = 0.05  # of all bytes; the adaptive policy stops when its cancellations have lost this share


def measure_gain(runs: Sequence[Figures]) -> float:
    """How many times faster the run with mitigation is than the one without, by wall time."""
    _, none, mitigated = runs
    return none.wall_s / mitigated.wall_s


def find_broken_bounds(runs: Sequence[Figures], size_bytes: int, must: float | None) -> list[str]:
    """One sentence for each bound that the three ``runs`` break; ``size_bytes`` is the whole workload.

    ``must``: the least gain (``measure_gain``); None: any gain is accepted.
    """
    ideal, none, mitigated = runs
    broken = [
        f"the {run.name!r} run has {plural(run.wrong - run.failed, 'wrong or missing file')} called done"
        for run in runs
        if run.wrong > run.failed
    ]
    if ideal.failed:
        broken.append(f"the 'ideal' run, without any fault, failed {plural(ideal.failed, 'file')}")
    if mitigated.failed > none.failed:
        failed = plural(mitigated.failed, "file")
        broken.append(f"with mitigation {failed} failed, without it {none.failed:,}")
    lost = mitigated.wasted_bytes - none.wasted_bytes
    if lost > MOST_WASTED * size_bytes:
        broken.append(
            f"mitigation wasted {lost:,} bytes, {lost / size_bytes:.1%} of all; the most is {MOST_WASTED:.0%}"
        )
    gain = measure_gain(runs)
    if must is not None and gain < must:
        broken.append(
            f"with mitigation {mitigated.wall_s:.2f} s, without it {none.wall_s:.2f} s: "
            f"{gain:.2f} times faster; at least {must:g} times was asked for"
        )
    return broken
