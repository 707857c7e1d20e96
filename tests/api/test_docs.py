"""docs/python.md: its examples run one after the other, its command too, and it names every public name."""

import io
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cfetch
from tests.api.slow_site import BODY
from tests.api.test_stream import write_arrow
from tests.engine.drive import tree

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def make_shard(number):
    """A tar archive of two samples, as WebDataset reads them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in (f"{number}a.txt", f"{number}a.cls", f"{number}b.txt", f"{number}b.cls"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"7"))
    return out.getvalue()


@pytest.fixture
def place(site, tmp_path, monkeypatch):
    """An empty directory with the list that the examples name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "urls.txt").write_text(site.url("list.bin") + "\n" + site.url("list.txt"))
    return tmp_path


def test_the_examples_run_one_after_the_other(place, site, capsys):
    """As on the page, except for the server's name; the files are where the page says."""
    names: dict[str, object] = {}
    site.bodies = {"rows.arrow": write_arrow(0), "shard-0.tar": make_shard(0), "shard-1.tar": make_shard(1)}
    for example in EXAMPLES:
        exec(example.replace("https://data.example.org/", site.url("")), names)
    assert set(tree(place / "data").values()) == {BODY}
    assert {"first/a.bin", "c.bin", "d.bin", "e-2026.bin", "f.bin", "list.txt"} <= tree(place / "data").keys()
    printed = capsys.readouterr().out
    assert "\n2000 bytes in any order\n3 rows\n4 samples\n" in printed
    assert "first/a.bin 1000 bytes in memory\nfirst/b.bin 1000 bytes in memory\n" in printed
    printed = re.sub(r"(?s)(e-2026.bin 1000\n).* samples\n", r"\1", printed)
    assert printed.startswith(
        "2 files, 2000 bytes\ne-2026.bin 1000\nmissing refused HTTP 404\nfirst/a.bin skipped "
    )
    assert BODY in tree(place / "cache").values()
    assert site.asked.count("a.bin") == 4  # for the page itself, for two streams, and for pooch


def test_the_data_set_of_the_page_shares_files_among_workers(site, monkeypatch):
    """Each worker reads its own files, in order, or none; PyTorch itself is too large for the tests."""
    site.bodies = {f"{number}.arrow": write_arrow(number) for number in range(4)}
    (example,) = re.findall(r"```py\n(.*?)\n\n\nfor batch in DataLoader", TEXT, re.DOTALL)
    workers = [SimpleNamespace(id=number, num_workers=2) for number in range(2)]
    workers.append(SimpleNamespace(id=4, num_workers=5))
    loader = SimpleNamespace(DataLoader=None, IterableDataset=object, get_worker_info=lambda: workers[0])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.utils", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.utils.data", loader)
    names: dict[str, Any] = {}
    exec(example, names)
    rows = names["Rows"]([site.url(name) for name in site.bodies])
    assert [row["n"] for row in rows] == [0, 1, 2, 6, 7, 8]
    workers.pop(0)
    assert [row["n"] for row in rows] == [3, 4, 5, 9, 10, 11]
    workers.pop(0)
    assert list(rows) == []


def test_no_error_seems_to_be_made_of_a_keyword():
    """PyTorch makes a worker's error anew, with ``message=…`` if the class has such an attribute."""
    assert not hasattr(cfetch.UsageError, "message")
    assert cfetch.UsageError("no").message == "no"


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
