"""Long lists as people have them, with columns that cfetch does not need: time and memory of a check.

``python benchmarks/large_lists.py [--rows 1000000] [--only NAME]`` makes a list of each kind, and runs
``cfetch manifest check``. The figures are those of docs/manifests.md.
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from memory_million import measure

URL = "https://images.example.org/{:02x}/{:09d}.jpg"
CAPTION = "a photograph of object number {} on a table in a room with a window, taken in the afternoon"
INVENTORY = '"bucket","{:02x}/{:09d}+x.bin","{}","2024-01-02T03:04:05.000Z","{:032x}","STANDARD"\n'


def write_parquet(path: Path, rows: int) -> None:
    """Write LAION's columns, in row groups of 100,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = iter(range(rows))
    schema = pa.schema({
        "URL": pa.string(), "TEXT": pa.string(), "WIDTH": pa.float64(), "HEIGHT": pa.float64(),
        "similarity": pa.float64(),
    })  # fmt: skip
    with pq.ParquetWriter(path, schema) as writer:
        while some := list(islice(numbers, 100_000)):
            columns = (
                [URL.format(n % 256, n) for n in some],
                [CAPTION.format(n) for n in some],
                *([n * factor for n in some] for factor in (1.0, 2.0, 1e-6)),
            )
            writer.write_table(pa.table(list(columns), schema=schema))


def write_csv(path: Path, rows: int) -> None:
    """Write a table with a row of names."""
    lines = (f'{URL.format(n % 256, n)},"{CAPTION.format(n)}",{n}\n' for n in range(rows))
    write_lines(path, ["image_url,caption,width\n"], lines)


def write_tsv(path: Path, rows: int) -> None:
    """Write a table without a row of names, as CC3M and CC12M are."""
    write_lines(path, [], (f"{CAPTION.format(n)}\t{URL.format(n % 256, n)}\n" for n in range(rows)))


def write_json_lines(path: Path, rows: int) -> None:
    """Write an object on each line."""
    write_lines(path, [], (make_object(n) + "\n" for n in range(rows)))


def write_json_array(path: Path, rows: int) -> None:
    """Write the same objects as one array."""
    write_lines(path, ["[", make_object(0)], (",\n" + make_object(n) for n in range(1, rows)), end="]")


def write_inventory(path: Path, rows: int) -> None:
    """Write an S3 inventory, compressed by gzip as S3 does."""
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(INVENTORY.format(n % 256, n, n, n) for n in range(rows))


def write_plain(path: Path, rows: int) -> None:
    """Write a URL on each line."""
    write_lines(path, [], (URL.format(n % 256, n) + "\n" for n in range(rows)))


def make_object(number: int) -> str:
    """Make a row of JSON."""
    row = {"url": URL.format(number % 256, number), "caption": CAPTION.format(number), "width": number}
    return json.dumps(row)


def write_lines(path: Path, first: list[str], lines: Iterator[str], end: str = "") -> None:
    """Write a text as a stream."""
    with path.open("w") as file:
        file.writelines(first)
        file.writelines(lines)
        file.write(end)


LISTS: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "Parquet: URL, TEXT, WIDTH, HEIGHT, similarity": ("m.parquet", write_parquet),
    "CSV: image_url, caption, width": ("m.csv", write_csv),
    "TSV without names: caption, URL": ("m.tsv", write_tsv),
    "JSON Lines: url, caption, width": ("m.jsonl", write_json_lines),
    "JSON array of the same": ("m.json", write_json_array),
    "S3 inventory (CSV, gzip)": ("inventory.csv.gz", write_inventory),
    "plain list": ("urls.txt", write_plain),
}


def main() -> None:
    """Make and check the lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="a part of a list's name")
    args = parser.parse_args()
    for name, (file, write) in LISTS.items():
        if args.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="cfetch-lists-") as folder:
            path = Path(folder) / file
            write(path, args.rows)
            print(f"{name}: {path.stat().st_size / 1e6:.0f} MB", flush=True)
            measure("checked", ["manifest", "check", str(path)], args.rows)


if __name__ == "__main__":
    main()
