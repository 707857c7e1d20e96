"""What running as a job on Spark costs: both engines on clean sets, on this machine, in turn.

Prints a Markdown table: medians of the seconds that summaries tell (start of the program and of the Spark
session not among them), and their ratio; ``first`` is the first job of a session, whose workers have yet to
start. Every file is compared with what was served. Usage::

    python benchmarks/spark_engines.py [--rounds 3] [--master local[2]] [--folder /dev/shm]
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from cfetch.app.download import prepare
from cfetch.bench.content import Group, count_right
from cfetch.bench.scenario import Scenario
from cfetch.bench.static_server import static_server
from cfetch.config.settings import Settings
from cfetch.spark.session import spark_session

SETS = {"4,000 × 16 KiB": Group("s", 4000, 16 << 10), "400 × 1 MiB": Group("m", 400, 1 << 20)}


def once(engine: str, manifest: Path, folder: Path, scenario: Scenario) -> float:
    """Seconds of one run into an empty directory."""
    with tempfile.TemporaryDirectory(dir=folder) as to:
        settings = Settings(to=(to,), engine=engine)
        with prepare(str(manifest), settings, env={}) as prepared:
            summary = prepared.run(lambda _: None)
        if summary is None or summary.exit_code != 0:
            raise SystemExit(f"{engine} ended with {summary}")
        if count_right(Path(to), scenario.names, scenario.files) != len(scenario.names):
            raise SystemExit(f"{engine} left files that are missing or wrong")
        return summary.elapsed_s


def measure(what: str, scenario: Scenario, folder: Path, master: str, rounds: int) -> str:
    """One row of the table."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as inner,
        static_server(scenario, Path(inner)) as (server, url, _),
    ):
        manifest = Path(inner, "manifest.json")
        manifest.write_bytes(scenario.manifest(url))
        seconds: dict[str, list[float]] = {"local": [], "spark": []}
        with spark_session(master):
            first_s = once("spark", manifest, folder, scenario)
            once("local", manifest, folder, scenario)  # its imports
            for _ in range(rounds):
                for engine, found in seconds.items():
                    found.append(once(engine, manifest, folder, scenario))
    local_s, spark_s = (statistics.median(found) for found in seconds.values())
    ratio = spark_s / local_s
    return f"| {what} from {server} | {local_s:.2f} s | {spark_s:.2f} s | {ratio:.2f} | {first_s:.2f} s |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, default=None, help="where files go; a RAM disk measures best")
    args = parser.parse_args()
    print(f"| set | local | spark, {args.master} | ratio | first |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-spark-") as outer:
        for what, group in SETS.items():
            scenario = Scenario(name="clean", groups=(group,))
            print(measure(what, scenario, Path(outer), args.master, args.rounds), flush=True)


if __name__ == "__main__":
    main()
