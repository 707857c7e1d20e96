"""docs/road.md against the trace of a real download: the modules through which one file travels, in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cfetch
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec

HOUSE = Path(cfetch.__file__).parent
ROOT = HOUSE.parent
STATION = re.compile(r"^\d+\. `([\w/]+\.py)`, `([\w.]+)`: ", re.MULTILINE)
NAME = "g-0000000.bin"
TRACE = f"""
import sys, threading

house, met = {str(HOUSE)!r} + "/", dict()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(house):
        met.setdefault(code.co_filename.removeprefix(house) + " " + code.co_qualname)

def write():
    sys.setprofile(None)
    open("trace", "w").write("\\n".join(met))

import atexit
from cfetch.__main__ import main
atexit.register(write)
threading.setprofile(note)
sys.setprofile(note)
sys.argv = ["cfetch", "download", "list", "--to", "to", "--quiet", "--processes", "1"]
main()
"""


def read_road():
    """The stations of the document: file and function."""
    return STATION.findall((ROOT / "docs" / "road.md").read_text(encoding="utf-8"))


def test_the_road_is_the_way_of_a_real_file(tmp_path):
    """A file whose first connection breaks meets each function of the document, first in its order."""
    fault = Fault(kind="reset", after_bytes=300_000, first=1)
    with OriginProcess(OriginSpec(groups=(Group("g-", 1, 1 << 20),), faults={NAME: (fault,)})) as origin:
        (tmp_path / "list").write_text(f"{origin.url}{NAME}\n")
        env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
        subprocess.run(
            [sys.executable, "-c", TRACE],
            cwd=tmp_path,
            env=env | {"PYTHONPATH": str(ROOT)},
            check=True,
            timeout=60,
        )
    met = (tmp_path / "trace").read_text().split("\n")
    road = [f"{file} {function}" for file, function in read_road()]
    assert len(road) == 19, "docs/road.md: begin each station with `file`, `function`: and a sentence"
    assert [station for station in road if station not in met] == [], "correct these stations in docs/road.md"
    in_order = sorted(road, key=met.index)
    assert in_order == road, "put the stations of docs/road.md into the order in which the file met them"


def test_the_road_is_read_in_an_afternoon():
    """Its files have about 4,900 lines together."""
    lines = sum(len((HOUSE / file).read_text(encoding="utf-8").splitlines()) for file, _ in read_road())
    assert 3000 < lines < 5500, f"the road has {lines} lines: move what handles other cases to other modules"
