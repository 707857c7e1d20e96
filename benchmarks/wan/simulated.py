"""Compares the simulator with real TCP: ``networks/`` in virtual time beside what ``rows/`` has.

A simulated network has the link, the round trip and TCP's slow start, and what a path does to its flows as
far as the simulator knows it: a limited rate, or no byte at all. A line ``leaves-out`` in a network's file
says what the simulator has not, and how that shows. Usage::

    python benchmarks/wan/simulated.py [--seeds 3] [--works small,medium,large]
"""

import argparse
import json
import statistics
from pathlib import Path

from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.network import NetworkChange, NetworkModel, Slow, Stall
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.simulation.play import simulate

HERE = Path(__file__).resolve().parent
PAYLOAD = 1448 / 1500  # of a packet: the headers of IPv4 and TCP, with time stamps
START_S = 0.22  # of Python, until the first request; the simulator has no processes
FILES = {"small": (2000, 16 << 10), "medium": (200, 1 << 20), "large": (1, 100 << 20)}
POLICIES = {"cfetch": "adaptive", "cfetch-none": "none"}


def read_model(path: Path) -> tuple[NetworkModel, str]:
    """The network as the simulator knows it, and what it leaves out."""
    lines = [line.split() for line in path.read_text().splitlines()]
    link = next(words for words in lines if words[0] == "link")
    paths = [[float(word) for word in words[1:]] for words in lines if words[0] == "path"]
    rates = [[float(word) for word in words[1:]] for words in lines if words[0] == "rate"]
    whole = sum(share for share, *_ in paths)
    slow = next((Slow(fraction=p[0] / whole, rate_bps=_bytes(p[4] / 1e3)) for p in paths if p[4]), None)
    dead = next((Stall(fraction=p[0] / whole) for p in paths if p[3] >= 100), None)
    model = NetworkModel(
        latency_s=2 * paths[0][1] / 1e3,
        link_bps=_bytes(float(link[1])),
        slow_start=True,
        slow=slow,
        stalls=dead,
        changes=tuple(
            NetworkChange(at_s=since_s, until_s=until_s, factor=float(link[1]) / mbit)
            for since_s, until_s, mbit in rates
        ),
    )
    left_out = next((" ".join(words[1:]) for words in lines if words[0] == "leaves-out"), "")
    return model, left_out


def _bytes(mbit: float) -> float:
    """Bytes of files a second."""
    return mbit * 1e6 / 8 * PAYLOAD


def main() -> None:
    """Print the table: seconds of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--works", default="medium", help=f"of {', '.join(FILES)}, with commas")
    asked = parser.parse_args()
    seeds = range(1, asked.seeds + 1)
    print("| network | measured, s | simulated, s | ratio | left out |\n|---|---|---|---|---|")
    for path in sorted((HERE / "rows").glob("*.cfetch*.cubic.jsonl")):
        name, work, tool, _ = path.name.removesuffix(".jsonl").rsplit(".", 3)
        if work not in asked.works.split(","):
            continue
        measured_s = statistics.median(json.loads(line)["seconds"] for line in path.read_text().splitlines())
        model, left_out = read_model(HERE / "networks" / f"{name}.conf")
        count, size = FILES[work]
        scenario = Scenario(name=name, groups=(Group("f", count, size),), network=model)
        played = [simulate(scenario, POLICIES[tool], seed).makespan_s for seed in seeds]
        simulated_s = START_S + statistics.median(played)
        row = [
            f"{name}, {work}, {tool}",
            f"{measured_s:.1f}",
            f"{simulated_s:.1f}",
            f"{simulated_s / measured_s:.2f}",
        ]
        print(f"| {' | '.join([*row, left_out])} |", flush=True)


if __name__ == "__main__":
    main()
