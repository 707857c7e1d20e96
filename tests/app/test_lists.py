"""Lists as people have them, downloaded by the command: where they were had, rows skipped, several lists."""

import asyncio
import json
from pathlib import Path

import pytest

from cfetch.app.verify import open_verification
from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest.folding import Folding
from cfetch.plugins.lab.bench.content import Content, Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.run.manifest_reader import ManifestReader
from cfetch.run.open_manifest import expand_manifests
from cfetch.run.volumes import Volumes
from tests.app.test_download import run
from tests.cli.verbs import cfetch, cfetch_plan
from tests.engine.drive import tree
from tests.tasks.scene import download, served, write_manifest
from tests.wire.raw_server import RecordingServer, reply

FILES = {f"d/{name}": Synthetic(f"d/{name}", 100) for name in ("a.bin", "x/b.bin", "c.bin")}


def bytes_of(*names):
    return {path: bytes(FILES[name].read(0, 100)) for path, name in names}


async def test_relative_lines_are_relative_to_the_lists_own_url(tmp_path):
    """Also where links are renewed by reading it again; they keep their paths."""
    versions = iter([b"a.bin?n=1\nx/b.bin\n", b"a.bin?n=2\nx/b.bin\n"])

    class Renewing(dict[str, Content | bytes]):
        """Another link at each reading."""

        def get(self, key, default=None):
            return next(versions) if key == "d/list.txt" else super().get(key, default)

    async with Origin(Renewing(FILES), {"d/a.bin": Fault(kind="status", status=403)}) as origin:
        ended = await run(f"{origin.url}d/list.txt", "--to", tmp_path / "to")
        assert [request.query for request in origin.requests if request.path == "d/a.bin"] == ["n=1", "n=2"]
    assert ended.code == 0, ended.err
    assert tree(tmp_path / "to") == bytes_of(("a.bin", "d/a.bin"), ("x/b.bin", "d/x/b.bin"))


def test_the_later_of_two_names_that_are_one_file_at_the_destination_fails(tmp_path, monkeypatch):
    """With both names; where they are two files, both come."""
    files = {"a": Synthetic("a", 100), "a.": Synthetic("a.", 100)}
    with served(files) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, files)
        assert download(manifest, tmp_path / "keeps").files.done == 2
        monkeypatch.setattr(Volumes, "find_folding", lambda _: Folding(ends="."))
        summary = download(manifest, tmp_path / "folds")
    [failure] = summary.failures
    assert (summary.exit_code, failure.path, failure.kind) == (1, "a.", "clash")
    assert "'a' and 'a.' are one file at the " in failure.message
    assert list(tree(tmp_path / "folds")) == ["a"]


async def test_faulty_rows_are_skipped_and_listed(tmp_path):
    """The others come; the file in the state directory has the line and the reason, and no secret."""
    async with Origin(FILES) as origin:
        text = (
            f"image_url,label\n{origin.url}d/a.bin,cat\nhttp://[x?sig=CANARY,dog\n{origin.url}d/c.bin,dog\n"
        )
        ended = await run("-", "--to", tmp_path / "to", "--bad-rows", "skip", stdin=text.encode())
    assert ended.code == 0, ended.err
    assert tree(tmp_path / "to") == bytes_of(("a.bin", "d/a.bin"), ("c.bin", "d/c.bin"))
    [rejected] = (tmp_path / "to/.cfetch/rejected").iterdir()
    [row] = map(json.loads, rejected.read_text().splitlines())
    assert (row["line"], "host" in row["reason"]) == (3, True)
    assert "CANARY" not in ended.err + rejected.read_text()
    assert str(rejected) in ended.err
    assert "columns that are left out: 'label'" in ended.err


async def test_files_that_clash_are_in_place_for_a_second_run(tmp_path):
    """Under their other names, and none of them is asked for again."""
    async with Origin(FILES) as origin:
        (tmp_path / "l.txt").write_text(
            "".join(json.dumps({"url": f"{origin.url}{name}", "path": "a.bin"}) + "\n" for name in FILES)
        )
        words = (tmp_path / "l.txt", "--to", tmp_path / "to", "--clash", "rename")
        first = await run(*words)
        requests = len(origin.requests)
        second = await run(*words)
        assert (first.code, second.code, len(origin.requests)) == (0, 0, requests), first.err + second.err
    names = zip(("a.bin", "a-2.bin", "a-3.bin"), FILES, strict=True)
    assert tree(tmp_path / "to") == bytes_of(*names)
    assert "have other names: 2; 'a.bin' is 'a-2.bin'" in first.err


async def test_kept_columns_are_in_the_metrics(tmp_path):
    """Of a file that came, of one that was in place, and of one that failed."""
    text = "".join(json.dumps({"url": f"{n}.bin", "label": f"cat?a=CANARY {n}"}) + "\n" for n in "acz")
    metrics = tmp_path / "m.jsonl"
    async with Origin(FILES) as origin:
        words = ("--to", tmp_path / "to", "--base-url", f"{origin.url}d/", "--metrics", metrics)
        for _ in range(2):
            ended = await run("-", *words, "--keep-columns", "label", stdin=text.encode())
            records = [
                record for record in map(json.loads, metrics.read_text().splitlines()) if "path" in record
            ]
            assert {record["path"]: record["columns"]["label"] for record in records} == {
                f"{n}.bin": f"cat?<redacted> {n}" for n in "acz"
            }
    assert (ended.code, {record["status"] for record in records}) == (1, {"skipped", "failed"})


async def test_several_manifests_are_one_run(tmp_path):
    """A file, a directory and a pattern, each in its own format."""
    async with Origin(FILES) as origin:
        (tmp_path / "lists").mkdir()
        (tmp_path / "one.txt").write_text(f"{origin.url}d/a.bin\n")
        (tmp_path / "lists/two.json").write_text(json.dumps([f"{origin.url}d/x/b.bin"]))
        (tmp_path / "lists/.hidden").write_text("no list")
        (tmp_path / "lists/more").mkdir()
        (tmp_path / "three.csv").write_text(f"link\n{origin.url}d/c.bin\n")
        names = [tmp_path / "one.txt", tmp_path / "lists", tmp_path / "*.csv"]
        ended = await run(*names, "--to", tmp_path / "to")
    assert ended.code == 0, ended.err
    assert sorted(tree(tmp_path / "to")) == ["a.bin", "b.bin", "c.bin"]
    assert "lists that are left out: 1; name them too" in ended.err


class Moving(RecordingServer):
    """Knows where its directory is only with a slash at the end, and keeps its lists elsewhere."""

    def __init__(self, elsewhere):
        super().__init__()
        self.elsewhere = elsewhere

    async def converse(self, reader, writer):
        while True:
            path = (await self.read_head(reader)).split()[1]
            move = {"/d": "/d/", "/d/list.txt": f"{self.elsewhere}blobs/1"}.get(path)
            body = {
                "/a.bin": b"wrong",
                "/d/": b'<html><title>Index of /d</title><a href="a.bin"><a href="/d/b.bin">',
            }.get(path, path.encode())
            writer.write(reply(b"", f"Location: {move}", status="302 x") if move else reply(body))


@pytest.mark.needs_plugins  # a directory's page is a list
@pytest.mark.parametrize(("name", "files"), [("d", ["a.bin", "b.bin"]), ("d/list.txt", ["a.bin"])])
async def test_a_list_that_has_moved_is_relative_to_its_new_place_at_its_host(tmp_path, name, files):
    """Most servers add a directory's slash; beside that directory there are other files of the same names."""
    async with Origin({"blobs/1": b"a.bin\n"}) as elsewhere, Moving(elsewhere.url) as server:
        manifest, to = f"{server.url}{name}", tmp_path / "to"
        ended = await run(manifest, "--to", to, "--name-by", "url-path")
        assert ended.code == 0, ended.err
        assert tree(to) == {f"d/{file}": f"/d/{file}".encode() for file in files}
        assert await asyncio.to_thread(verified, manifest, to, name_by="url-path") == []


async def test_several_manifests_are_one_for_other_commands_too(tmp_path):
    """They are scheduled as one plan, checked as one list, and verified together: nothing is in excess."""
    (tmp_path / "to/lists").mkdir(parents=True)
    async with Origin(FILES) as origin:
        lists = [str(tmp_path / "to/lists/a.txt"), str(tmp_path / "to/lists/b.txt")]
        for path, name in zip(lists, ("a.bin", "c.bin"), strict=True):
            Path(path).write_text(f"{origin.url}d/{name}\n")
        scheduled = await cfetch_plan("schedule", *lists, "--to", tmp_path / "to")
        assert (scheduled.code, scheduled.err) == (0, "")
        assert (await cfetch_plan("run", "--to", tmp_path / "to")).code == 0
        checked = await cfetch("manifest", "check", str(tmp_path / "to/lists"), "--json")
        assert (checked.document["files"], checked.code) == (2, 0)
        assert (await cfetch("verify", *lists, "--to", tmp_path / "to")).code == 0
        assert (await cfetch("verify", lists[0], "--to", tmp_path / "to")).code == 1


def verified(manifest, root, **options):
    with open_verification(manifest, [root], reader=ManifestReader(ReadingOptions(**options))) as comparison:
        return list(comparison.differences(lambda files, size_bytes: None))


def test_a_broken_symlink_in_a_directory_of_manifests_is_not_passed_over(tmp_path):
    """Its entries would be missing without a word; to open it is an error."""
    (tmp_path / "a.txt").write_text("http://127.0.0.1:1/a\n")
    (tmp_path / "b.txt").symlink_to("gone")
    (tmp_path / "c").mkdir()
    (tmp_path / "d").symlink_to("c")
    manifests, [note] = expand_manifests([str(tmp_path)])
    assert manifests == [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]
    assert "left out: 2;" in note


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["none/*.csv"], "no file has a name like"),
        (["a.txt", "-"], "standard input cannot be one of several"),
        (["a.txt", "missing.txt"], "No such file"),
    ],
)
async def test_a_name_that_stands_for_no_manifest(tmp_path, names, word):
    """Nothing is downloaded of the others."""
    (tmp_path / "a.txt").write_text("http://127.0.0.1:1/a\n")
    paths = [name if name == "-" else tmp_path / name for name in names]
    ended = await run(*paths, "--to", tmp_path / "to", stdin=b"")
    assert ended.code == 2
    assert word in ended.err
    assert not (tmp_path / "to/a").exists()


async def test_a_dry_run_shows_the_notes(tmp_path):
    """Rows that look like byte ranges are told before anything is asked for."""
    rows = "".join(
        json.dumps({"url": "http://h/a.warc", "offset": n, "path": f"{n}"}) + "\n" for n in range(3)
    )
    ended = await run("-", "--to", tmp_path, "--dry-run", "--json", stdin=rows.encode())
    assert ended.code == 0
    [note] = ended.summary["notes"]
    assert "byte ranges" in note
