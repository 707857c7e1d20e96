"""Commands of the documents, run as they stand, except for the names of hosts and places outside the project.

docs/recipes.md, docs/python.md and docs/report.md have tests of their own, as have buckets, feeds, clusters.
"""

import functools
import hashlib
import json
import re
import shlex
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conditions.runner import call
from tests.engine.drive import tree

PROJECT = Path(__file__).parents[2]
ELSEWHERE = {"/data": "data", "/var/lib/node_exporter/": "", "8080": "0"}
BODIES = {f"{number:03}.jpg": b"%03d" % number * 50 for number in range(99)}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of a server with a directory index, and checksums."""
    root = tmp_path_factory.mktemp("site")
    (root / "pub").mkdir()
    for name, body in BODIES.items():
        (root / "pub" / name).write_bytes(body)
    (root / "disk.iso").write_bytes(b"disk" * 1000)
    digest = hashlib.sha256(b"disk" * 1000).hexdigest()
    for name in ("disk.iso.sha256", "SHA256SUMS"):
        (root / name).write_text(f"{digest}  disk.iso\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(site, tmp_path, monkeypatch):
    """Run the command of a page that begins with these words, in a directory with the lists that it names."""
    monkeypatch.chdir(tmp_path)
    urls = [f"{site}pub/{name}" for name in BODIES]
    Path("urls.txt").write_text("\n".join(urls))
    Path("manifest.json").write_text(json.dumps({"version": 1, "files": [{"url": url} for url in urls[:6]]}))

    def run_command(page, start):
        text = (PROJECT / page).read_text(encoding="utf-8")
        commands = re.findall(rf"^({re.escape(start)}.*?)(?: +#.*)?$", text, re.MULTILINE)
        assert len(commands) == 1, commands
        (command,) = commands
        for old, new in {"https://example.org/": site, **ELSEWHERE}.items():
            command = command.replace(f" {old}", f" {new}")
        ran = call(*shlex.split(command)[1:])
        assert ran.code == 0, ran.said
        return ran

    return run_command


@pytest.mark.needs_plugins
def test_readme_brings_a_list_a_table_with_a_dead_link_and_a_verified_file(run, site):
    """The first commands that somebody types."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    run("README.md", "cfetch download urls.txt")
    assert tree(Path("data")) == BODIES
    urls = [f"{site}pub/{name}" for name in (*BODIES, "dead.jpg")]
    pq.write_table(pa.table({"image_url": urls}), "images.parquet")
    run("README.md", "cfetch download images.parquet")
    assert tree(Path("images")) == BODIES
    assert "dead.jpg" in Path("dead.jsonl").read_text()
    run("README.md", "cfetch get")
    assert Path("disk.iso").read_bytes() == b"disk" * 1000


def test_a_plan_is_scheduled_run_listed_and_cleaned(run):
    """docs/plans.md, in its order."""
    instant = run("docs/plans.md", "cfetch plan schedule").out.strip()
    run("docs/plans.md", "cfetch plan run --all")
    listed = run("docs/plans.md", "cfetch plan list").out
    assert instant in listed
    assert "completed" in listed
    run("docs/plans.md", "cfetch plan clean")
    assert len(tree(Path("data"))) == 6


@pytest.mark.needs_plugins
def test_a_directory_index_and_checksums_are_synced(run):
    """docs/sync.md: the dry run brings nothing, the other says what it did."""
    run("docs/sync.md", "cfetch sync https://example.org/pub/")
    assert not Path("mirror").exists()
    ran = run("docs/sync.md", "cfetch sync https://example.org/SHA256SUMS")
    assert json.loads(ran.out)["files"]["done"] == 1


def test_files_are_distributed_over_volumes(run):
    """docs/placement.md: every file is on one of the three, and each batch has its reason."""
    run("docs/placement.md", "cfetch download manifest.json")
    placed = [name for number in (1, 2, 3) for name in tree(Path(f"data{number}"))]
    assert sorted(placed) == [*BODIES][:6]


@pytest.mark.needs_plugins
def test_a_run_is_served_and_leaves_its_numbers(run):
    """docs/monitoring.md."""
    assert (
        "the run is shown at"
        in run("docs/monitoring.md", "cfetch download manifest.json --to data/ --serve").said
    )
    run("docs/monitoring.md", "cfetch download manifest.json --to data/ --metrics-textfile")
    assert 'cfetch_files_total{outcome="skipped"} 6.0' in Path("cfetch.prom").read_text()
