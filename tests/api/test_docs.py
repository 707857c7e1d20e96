"""docs/python.md: its examples run one after the other, its command too, and it names every public name."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cfetch
from tests.api.slow_site import BODY
from tests.engine.drive import tree

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def place(site, tmp_path, monkeypatch):
    """An empty directory with the list that the examples name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "urls.txt").write_text(site.url("list.bin") + "\n" + site.url("list.txt"))
    return tmp_path


def test_the_examples_run_one_after_the_other(place, site, capsys):
    """As on the page, except for the server's name; the files are where the page says."""
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(example.replace("https://data.example.org/", site.url("")), names)
    assert set(tree(place / "data").values()) == {BODY}
    assert {"first/a.bin", "c.bin", "d.bin", "e-2026.bin", "f.bin", "list.txt"} <= tree(place / "data").keys()
    printed = capsys.readouterr().out
    assert printed.startswith(
        "2 files, 2000 bytes\ne-2026.bin 1000\nmissing refused HTTP 404\nfirst/a.bin skipped "
    )
    assert BODY in tree(place / "cache").values()
    assert site.asked.count("a.bin") == 2  # for the page itself, and for pooch


@pytest.mark.parametrize(
    ("options", "of_call"),
    [
        ({"headers": {"X-Key": "1", "X-Two": "2"}}, {}),
        ({"client_kwargs": {"headers": {"X-Key": "1"}}, "headers": {"X-Two": "2"}}, {}),
        ({"headers": {"X-Key": "9"}}, {"headers": {"X-Key": "1", "X-Two": "2"}}),
        ({"headers": {"X-Key": "1", "X-Two": "2"}, "cookies": {"a": "1"}}, {}),
    ],
)
def test_the_file_system_of_the_page_hands_on_what_it_is_given(place, site, options, of_call):
    """The server sees the headers of the client, of the file system and of the call, and a cookie."""
    (example,) = (example for example in EXAMPLES if "class CfetchFileSystem" in example)
    names: dict[str, Any] = {"cfetch": cfetch}
    exec(example.partition("fsspec.register_implementation(")[0], names)
    system = names["CfetchFileSystem"](skip_instance_cache=True, **options)
    system.get_file(site.url("g.bin"), str(place / "g.bin"), **of_call)
    assert (place / "g.bin").read_bytes() == BODY
    seen = site.headers[-1]
    assert (seen["x-key"], seen["x-two"], "cookie" in seen) == ("1", "2", "cookies" in options)


def test_every_public_name_is_on_the_page():
    """A name that nobody explains is not public."""
    assert [name for name in cfetch.__all__ if not re.search(rf"\b{name}\b", TEXT) and name[0] != "_"] == []


@pytest.mark.needs_plugins
def test_the_policy_is_found_and_played(place):
    """Its package needs no more than the page shows: module, entry point, command."""
    (module,) = (example for example in EXAMPLES if example.startswith("# decile.py"))
    (points,) = re.findall(r'```toml\n.*?\n\[project\.entry-points\."(.*?)"\]\n(.*?)```', TEXT, re.DOTALL)
    (command,) = re.findall(r"```sh\n(cfetch bench .*)\n```", TEXT)
    (place / "decile.py").write_text(module)
    (place / "decile-1.dist-info").mkdir()
    (place / "decile-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: decile\nVersion: 1\n")
    (place / "decile-1.dist-info/entry_points.txt").write_text(
        f"[{points[0]}]\n{points[1].replace(chr(34), '')}"
    )
    environment = {"PYTHONPATH": f"{ROOT}:{place}", "COLUMNS": "100", "PATH": "/usr/bin:/bin"}

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "cfetch", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    played = run(*shlex.split(command)[1:])
    assert played.returncode == 0, played.stderr
    assert re.search(r"decile .*\n", played.stdout)
    shown = run("download", "x", "--policy", "decile", "--show-config")
    assert "policy: decile" in shown.stdout
    refused = run("download", "x", "--policy", "impatient", "--show-config")
    assert (refused.returncode, "adaptive, cloudfetch, decile" in refused.stderr) == (2, True)
