"""docs/tutorial.md, followed word by word in an empty directory, except for the installation and the port."""

import functools
import re
import shlex
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conditions.runner import call
from tests.engine.drive import tree

TUTORIAL = (Path(__file__).parents[2] / "docs/tutorial.md").read_text(encoding="utf-8")
NOT_HERE = re.compile(r".*(cfetch-venv|python3 -m http\.server|^kill |--version).*\n", re.MULTILINE)
NEEDED = ("bash", "sha256sum", "seq")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def follow(block):
    """Run a block of the page: commands of cfetch in this process, else bash. What they said."""
    if "cat >" in block:
        subprocess.run(["bash", "-ec", re.sub(r"\n~/nightly.*", "", block)], check=True)
        (command,) = re.findall(r"^exec cfetch (.*)", Path("nightly.sh").read_text(), re.MULTILINE)
        return follow(f"cfetch {command.replace('$HOME/', '')}\n")
    said = []
    for line in block.splitlines():
        command, _, otherwise = line.partition(" || ")
        words = shlex.split(re.sub(r"^timeout .*? cfetch", "cfetch", command))
        if words and words[0] == "cfetch":
            ran = call(*words[1:])
            assert (ran.code != 0) == bool(otherwise), ran.said
            said.append(ran.out + ran.said)
        else:
            subprocess.run(["bash", "-euc", line], check=True, capture_output=True)
    return "".join(said)


@pytest.mark.needs_plugins
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}")
def test_the_tutorial_leads_from_nothing_to_a_mirror(tmp_path, monkeypatch):
    """Each command ends as the page says, and the mirror is equal to the source."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("source").mkdir()
    handler = functools.partial(_Quiet, directory=tmp_path / "source")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = NOT_HERE.sub("", TUTORIAL).replace(":8000/", f":{server.server_port}/")
        blocks = re.findall(r"```sh\n(.*?)```", text.replace("head -c 1000000", "head -c 900"), re.DOTALL)
        said = "".join(map(follow, blocks))
        server.shutdown()
    for line in ("done: 30 of 30 files in place", "30 already there", "deleting 1 file that the source"):
        assert line in said
    assert said.count("good: 30 by sha256; found: nothing wrong") == 2
    assert "wrong hash: part-7.bin" in said
    source = tree(Path("source"))
    assert tree(Path("mirror")) == source
    assert "part-1.bin" not in source
    assert Path("report.html").read_text().startswith("<!doctype html>")
