"""What the native forms of a list cost beside Python's own reading of the same bytes.

``python benchmarks/list_cost.py [--rows 200000] [--runs 5]`` makes a plain list, a table and the same as JSON
Lines and JSON, and reads each in turn by Python's own way (``split``, ``csv.reader``, ``json.loads`` of each
line, ``json.load``), by cfetch to entries, and by cfetch to a sealed plan, which is what ``manifest check``
waits for. Processor time, the least of the runs; a ratio compares times of one run of this program.
"""

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from cfetch.manifest.freezing import ManifestPart, Opened, freeze
from cfetch.manifest.reading import read_entries

URL = "https://images.example.org/{:02x}/{:09d}.jpg"
PATH = "{:02x}/{:09d}.jpg"


def write_lists(folder: Path, rows: int) -> None:
    """Write the lists, as streams."""
    places = [(number % 256, number) for number in range(rows)]
    objects = [
        json.dumps({"url": URL.format(*place), "size": place[1], "path": PATH.format(*place)})
        for place in places
    ]
    table = (f"{URL.format(*place)},{place[1]},{PATH.format(*place)}\n" for place in places)
    (folder / "urls.txt").write_text("".join(URL.format(*place) + "\n" for place in places))
    (folder / "m.csv").write_text("url,size,path\n" + "".join(table))
    (folder / "m.jsonl").write_text("".join(f"{text}\n" for text in objects))
    (folder / "m.json").write_text('{"version": 1, "files": [\n' + ",\n".join(objects) + "\n]}\n")


def split_urls(path: Path) -> None:
    """Split a plain list."""
    path.read_text().split()


def read_table(path: Path) -> None:
    """Read a table by ``csv.reader``."""
    with path.open(newline="") as file:
        for _ in csv.reader(file):
            pass


def load_lines(path: Path) -> None:
    """Read JSON Lines by ``json.loads``."""
    with path.open() as file:
        for line in file:
            json.loads(line)


def load_document(path: Path) -> None:
    """Read a document by ``json.load``."""
    with path.open() as file:
        json.load(file)


def read_list(path: Path) -> None:
    """Read a list to entries."""
    with path.open("rb") as file:
        for _ in read_entries(file, name=path.name):
            pass


def seal_plan(path: Path) -> None:
    """Read a list to a sealed plan."""
    with tempfile.TemporaryDirectory() as folder, path.open("rb") as file:
        part = ManifestPart(path.name, lambda: nullcontext(Opened(file)))
        freeze([part], name=path.name, directory=Path(folder)).close()


FORMS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "urls.txt": ("split", split_urls),
    "m.csv": ("csv.reader", read_table),
    "m.jsonl": ("json.loads a line", load_lines),
    "m.json": ("json.load", load_document),
}


def measure(read: Callable[[Path], None], path: Path) -> float:
    """Processor time in seconds."""
    begin = time.process_time()
    read(path)
    return time.process_time() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cfetch-cost-") as name:
        folder = Path(name)
        write_lists(folder, args.rows)
        for file, (yardstick, read) in FORMS.items():
            path = folder / file
            times = [[measure(each, path) for each in (read, read_list, seal_plan)] for _ in range(args.runs)]
            python_us, read_us, plan_us = (
                1e6 * min(column) / args.rows for column in zip(*times, strict=True)
            )
            print(
                f"{file}: {yardstick} {python_us:.3f} µs a row; entries {read_us:.2f} µs, "
                f"{read_us / python_us:.1f} times; plan {plan_us:.2f} µs, {plan_us / python_us:.1f} times",
                flush=True,
            )


if __name__ == "__main__":
    main()
