"""Compares the end that the live view predicts with the end that came, in simulated runs.

``python benchmarks/predicted_ends.py`` plays eighteen runs in virtual time: six networks, each with the sizes
in the list, with sizes that only the replies state, and with replies that state none. It prints, for 15, 30,
50 and 75 per cent of each, the predicted whole time as a multiple of the true one.
"""

from collections.abc import Iterator

import msgspec

from cfetch.base.events import Event, Progress, RunStarted
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.simulation import play
from cfetch.plugins.lab.bench.simulation.plan import SimPlan
from cfetch.show.counts import LiveCounts
from cfetch.show.live.prediction import predict
from cfetch.show.live.view import View

MOMENTS = (0.15, 0.30, 0.50, 0.75)
NAMES = ("clean-mixed-sizes", "slow-ten-percent", "heavy-tail", "one-huge-file", "flaky-503", "full-link")


class UnlistedSizes(SimPlan):
    """A list of URLs alone: the replies state the sizes."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.sizes = [-1] * len(self)


def make_runs() -> Iterator[tuple[Scenario, type[SimPlan]]]:
    """The scenarios of this repository that take some seconds, by who states the sizes."""
    for name in NAMES:
        scenario = find_scenario(name)
        network = scenario.network or NetworkModel()
        chunked = msgspec.structs.replace(network, sizes=False)
        yield scenario, SimPlan
        yield msgspec.structs.replace(scenario, name=f"{name}, sizes in replies"), UnlistedSizes
        yield msgspec.structs.replace(scenario, name=f"{name}, no sizes", network=chunked), SimPlan


def play_out(scenario: Scenario, make_plan: type[SimPlan]) -> tuple[float, list[tuple[float, float | None]]]:
    """The true time of a run, and by time the predicted one."""
    view = View()
    seen: list[tuple[float, float | None]] = []
    plan = make_plan(scenario)
    known = [size for size in plan.sizes if size >= 0]
    begin = RunStarted(
        t_s=0.0, instant="", wall_start="", version="", host="", files=len(plan), bytes_known=sum(known),
        sizes_unknown=len(plan) - len(known), concurrency=scenario.concurrency, destination="",
        settings=play.settings_of(scenario, "adaptive").public(),
    )  # fmt: skip

    class Counting(LiveCounts):
        def __init__(self) -> None:
            super().__init__()
            self(begin)

    def listen(event: Event) -> None:
        view.apply(event)
        if isinstance(event, Progress):
            left = predict(view)
            seen.append((event.t_s, None if left is None else event.t_s + left.seconds))

    vars(play)["LiveCounts"] = Counting  # a run on this machine gets the totals from its frame
    vars(play)["SimPlan"] = make_plan
    try:
        view.apply(begin)
        played = play.simulate(scenario, "adaptive", listen=listen)
    finally:
        vars(play)["LiveCounts"] = LiveCounts
        vars(play)["SimPlan"] = SimPlan
    return played.makespan_s, seen


def main() -> None:
    """Print the table, and how many predictions were within 1.3 of the truth."""
    good = shown = whole = 0
    print(f"{'run':<44}{'true':>8}{'first':>14}" + "".join(f"{moment:>8.0%}" for moment in MOMENTS))
    for scenario, make_plan in make_runs():
        true_s, seen = play_out(scenario, make_plan)
        row: list[float | None] = []
        first = next(((t_s, end_s) for t_s, end_s in seen if end_s is not None), None)
        for moment in MOMENTS:
            ends = [end_s for t_s, end_s in seen if t_s <= moment * true_s]
            end_s = ends[-1] if ends else None
            row.append(None if end_s is None else end_s / true_s)
        near = [1 / 1.3 <= ratio <= 1.3 for ratio in row if ratio is not None]
        good, shown, whole = good + sum(near), shown + len(near), whole + all(near)
        at = "-" if first is None else f"{first[1] / true_s:.2f} at {first[0] / true_s:.0%}"
        print(
            f"{scenario.name:<44}{true_s:>7.1f}s{at:>14}"
            + "".join(f"{'-' if ratio is None else f'{ratio:.2f}':>8}" for ratio in row)
        )
    print(f"within 1.3 of the truth: {good} of {shown} predictions; runs with no other one: {whole}")


if __name__ == "__main__":
    main()
