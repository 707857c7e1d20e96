"""Makes pages of metrics files with random, often absurd numbers; counts how `cfetch report --html` ends.

    python benchmarks/hostile_metrics.py [--files 300] [--seed 1]

Each file is a run of up to 50 hosts that begin and end at any time. Some numbers are replaced: by huge,
negative or tiny ones, by infinity, by text, or by nothing. A page must be made (exit code 0) or refused with
the line that is wrong (exit code 2), within a time limit and with bounded memory.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

LONGEST_S = 60
ODD = ("1e308", "-1e308", "1e9", "-1", "0", "1e-300", "NaN", "Infinity", '"5"', "null", "9" * 30, None)
"""What may stand in place of a number; None: the key is missing."""


def make_lines(dice: random.Random) -> list[str]:
    """The lines of a metrics file: a run's head, and a record for each file."""
    head = {
        "schema": "cfetch.run/1", "instant": "20260101000000000", "wall_start": "2026-01-01T00:00:00Z",
        "files": 40, "version": "0.1.0", "host": "h", "concurrency": 16, "settings": {},
    }  # fmt: skip
    hosts = [
        (f"h{n}", dice.uniform(0, 100), dice.choice((0.0, 0.01, 5.0, 4000.0)))
        for n in range(dice.randint(1, 50))
    ]
    records = [make_record(n, dice, *dice.choice(hosts)) for n in range(dice.choice((0, 1, 3, 40)))]
    lines = [json.dumps(head), *map(json.dumps, records)]
    for _ in range(dice.choice((0, 0, 1, 3))):
        place = dice.randrange(len(lines))
        lines[place] = damage(lines[place], dice)
    return lines


def make_record(
    number: int, dice: random.Random, host: str, from_s: float, length_s: float
) -> dict[str, Any]:
    """A file of ``host``, brought by one attempt within these times; some attempts take no time at all."""
    start_s = from_s + dice.uniform(0, length_s)
    end_s = start_s + dice.choice((0.0, dice.uniform(0, length_s)))
    size = dice.choice((0, 1, 1000, 10**12))
    attempt = {
        "n": 1, "start_s": start_s, "first_byte_s": dice.choice((None, start_s)), "end_s": end_s,
        "from_byte": 0, "bytes": size, "http_status": 200,
        "outcome": dice.choice(("done", "straggler", "stalled", "error")),
        "error": None, "peer": None, "median_bps": None, "expected_s": None, "samples": [[end_s, size]],
    }  # fmt: skip
    return {
        "schema": "cfetch.file/1", "instant": "20260101000000000", "id": number, "offset": number,
        "path": f"f{number}", "host": host, "size_bytes": size, "bytes": size, "verified": "size",
        "volume": ".", "status": dice.choice(("done", "failed", "skipped")), "queued_s": 0.0,
        "start_s": start_s, "end_s": end_s, "rate_bps": 1.0, "stragglers": 0, "attempts": [attempt],
    }  # fmt: skip


def damage(line: str, dice: random.Random) -> str:
    """Put something else in place of one number of the line, or leave the key out."""
    document = json.loads(line, parse_constant=str)
    if not isinstance(document, dict):
        return line
    target = dice.choice([document, *document.get("attempts", [])]) if document.get("attempts") else document
    key = dice.choice([key for key in target if key != "schema"])
    odd = dice.choice(ODD)
    if odd is None:
        del target[key]
        return json.dumps(document)
    target[key] = "@"
    return json.dumps(document).replace('"@"', odd)


def main() -> None:
    """Print the exit codes with their numbers, the hangs, and the largest memory of a report."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--files", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        metrics, page = Path(folder, "m.jsonl"), Path(folder, "page.html")
        for number in range(chosen.files):
            metrics.write_text("\n".join(make_lines(random.Random(f"{chosen.seed}/{number}"))) + "\n")
            page.unlink(missing_ok=True)
            command = [sys.executable, "-m", "cfetch", "report", str(metrics), "--html", str(page)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
            except subprocess.TimeoutExpired:
                end = "hang"
            else:
                end = f"exit {done.returncode}"
                if done.returncode == 2 and "m.jsonl" not in done.stderr:
                    end = "exit 2 without the place"
                if done.returncode == 0 and not page.exists():
                    end = "exit 0 without a page"
            ends[end] += 1
            if end not in {"exit 0", "exit 2"}:
                print(f"{chosen.seed}/{number}: {end}", file=sys.stderr)
    most_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        ", ".join(f"{end}: {count}" for end, count in sorted(ends.items())),
        f"; at most {most_mib:.0f} MiB",
        sep="",
    )


if __name__ == "__main__":
    main()
