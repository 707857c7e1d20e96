"""Loading without Spark, and looking at the tables without it; as a program, loads that die at each step.

The program is given a folder, new metrics, and old ones or none. For n = 1, 2, … it loads the new ones into
a copy of tables that hold the old ones, or into none, and kills itself at the n-th change of the file system.
It looks at what stands there, loads again, and prints both. It ends when a load came to its end.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cfetch.plugins.spark.tables.columns import TABLES
from cfetch.plugins.spark.tables.load import load_by, write_sources

__all__ = ["current", "debris", "loaded"]

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def loaded(to, *sources):
    """Load them in this process."""
    return load_by(write_sources, list(sources), to)


def rows(to, table):
    """All rows of the files whose names readers see."""
    paths = [path for path in sorted(to.glob(f"{table}/**/*.parquet")) if not path.name.startswith(".")]
    return [row for path in paths for row in pa.Table.to_pylist(pq.ParquetFile(path).read())]


def current(to, table):
    """Those of them that count."""
    loads = {row["load"] for row in rows(to, "runs")}
    return [row for row in rows(to, table) if row["load"] in loads]


def debris(to):
    """Names of files that nobody needs: hidden, of no current load, or of a load that is under way."""
    loads = {row["load"] for row in rows(to, "runs")}
    stale = {row["load"] for table in ("files", "attempts") for row in rows(to, table)} - loads
    hidden = [path.name for path in to.rglob(".*")]
    return sorted(stale) + hidden + [path.name for path in to.glob("_loading/*")]


def versions(to):
    """For each run in the tables: the sizes of its files, which differ between old and new."""
    found = {}
    for row in current(to, "runs"):
        found[row["instant"]] = {
            table: sorted(one["size_bytes"] for one in current(to, table) if one["load"] == row["load"])
            for table in ("files", "attempts")
        } | {"planned": row["planned"]}
    return found


def _die_at(change):
    left = change

    def hook(event, _arguments):
        nonlocal left
        if event in CHANGES:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(folder, new, *old):
    """See above."""
    seen: list[list[object]] = []
    template = folder / "template"
    template.mkdir()
    if old:
        loaded(template, *old)
    status = 1
    while status:
        to = folder / f"to{len(seen)}"
        shutil.copytree(template, to)
        child = os.fork()
        if not child:
            _die_at(len(seen) + 1)
            loaded(to, new)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        after_crash = versions(to)
        loaded(to, new)
        seen.append([after_crash, versions(to), debris(to)])
        shutil.rmtree(to)
    print(json.dumps(seen))


if __name__ == "__main__":
    assert set(TABLES) >= {"files", "attempts", "runs"}
    main(*map(Path, sys.argv[1:]))
