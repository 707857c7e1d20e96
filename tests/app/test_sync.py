"""``cfetch sync``: a directory like a source that has a list, over its changes and deletions."""

import asyncio
import errno
import hashlib
import json
import os
import shutil
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from cfetch.run.catalogue import name_source
from cfetch.storage.claims import GUARDS, claim
from cfetch.storage.directory import Directory
from cfetch.storage.files import make_private
from cfetch.storage.occupancy import occupy
from tests.conditions.runner import call
from tests.engine.drive import tree
from tests.wire.raw_server import RecordingServer, reply


class Index(RecordingServer):
    """Directory indexes of a tree of ``files``, whose ETags are hashes; 304 is for those who have a file."""

    def __init__(self, files):
        super().__init__()
        self.files = files
        self.end = "</html>"
        self.fields: tuple[str, ...] = ()
        self.place = ""
        self.refused = ()

    def list_directory(self, name):
        below = (file.removeprefix(name).partition("/") for file in self.files if file.startswith(name))
        names = dict.fromkeys(first + slash for first, slash, _ in below)
        links = "".join(f'<a href="{quote(name)}">{name}</a>' for name in ("../", *names))
        return f"<html><title>Index of /</title>{links}{self.end}".encode()

    async def converse(self, reader, writer):
        while True:
            head = await self.read_head(reader)
            name = unquote(self.line(-1).split()[1]).lstrip("/")
            body = self.files.get(name) or self.list_directory(name)
            etag = f'"{hashlib.md5(body).hexdigest()}"'
            if name in self.refused:
                writer.write(reply(b"", status="403 Forbidden"))
            elif name == self.place or name.endswith("/"):
                writer.write(reply(body, *self.fields))
            elif not name:
                writer.write(reply(b"", f"Location: /{self.place}", status="302 Found"))
            elif name not in self.files:
                writer.write(reply(b"", status="404 Not Found"))
            elif f"If-None-Match: {etag}" in head:
                writer.write(reply(b"", status="304 Not Modified", length=False))
            else:
                writer.write(reply(body, f"ETag: {etag}"))

    @property
    def bodies(self):
        return len(self.heads) - sum("If-None-Match" in head for head in self.heads)


async def sync(source, to, *words):
    """What it said, and its document."""
    ran = await asyncio.to_thread(call, "sync", source, "--to", to, "--json", *words)
    assert "Traceback" not in ran.err
    return ran, json.loads(ran.out) if ran.out else None


async def plans(to):
    """What stands on its timeline."""
    ran = await asyncio.to_thread(call, "plan", "list", "--to", to, "--json")
    return json.loads(ran.out)["plans"]


def counts(document):
    files = document["files"]
    return files["done"], files["skipped"], document["sync"]["deleted"]


async def test_a_prefix_over_its_changes(bucket, tmp_path, monkeypatch):
    """By the store's ETags: one of the same size is fetched again, and nothing is asked for the others."""
    to, source = tmp_path / "to", f"{bucket.url}/"
    for key, body in {"a": b"1111", "b": b"2222", "d/c": b"3", "d/e": b"4"}.items():
        bucket.put(key, body)
    _, first = await sync(source, to)
    assert counts(first) == (4, 0, 0)
    (to / "mine").write_bytes(b"a user's own")
    bucket.put("a", b"AAAA")
    for gone in ("d/c", "d/e"):
        bucket.server.ask("DELETE", bucket._target(gone))
    ran, by_default = await sync(source, to, "--delete", "--dry-run")  # a small mirror may lose ten files
    assert (ran.code, by_default["refusal"]) == (0, None)
    looked, look = await sync(source, to, "--delete", "--max-delete", "10%", "--dry-run")
    assert looked.code == 2
    assert (look["preview"]["in_place"], look["changed"], look["deletes"]) == (1, 1, ["d/c", "d/e"])
    assert "--max-delete allows 0" in look["refusal"]
    refused, _ = await sync(source, to, "--delete", "--max-delete", "25%")
    assert (refused.code, tree(to)["a"]) == (2, b"1111")
    assert "give --max-delete 2" in refused.err
    (to / "d/e").write_bytes(b"a user's")
    ran, second = await sync(source, to, "--delete", "--max-delete", "2")
    assert (ran.code, counts(second), second["sync"]["changed"]) == (0, (1, 1, 1), 1)
    assert "kept, as it was changed here: d/e" in ran.err
    kept = {"a": b"AAAA", "b": b"2222", "d/e": b"a user's", "mine": b"a user's own"}
    assert tree(to) == kept
    assert len(list(to.glob(".cfetch/syncs/*.sqlite"))) == 1
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.server.url.replace("127.0.0.1", "localhost"))
    assert (await sync(source, to, "--delete", "--dry-run"))[1]["gone"] == 0
    await sync(source, to)
    assert len(list(to.glob(".cfetch/syncs/*.sqlite"))) == 2
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.server.url)
    (to / "new").write_bytes(b"____")
    bucket.put("new", b"5555")
    _, third = await sync(source, to, "--delete")
    assert (counts(third), third["sync"]["gone"]) == ((1, 2, 0), 0)
    assert tree(to) == {**kept, "new": b"5555"}


@pytest.mark.needs_plugins
async def test_an_index_is_asked_for_each_file(tmp_path):
    """It states no versions. What stood there before, or another tool has put, is not deleted."""
    to = tmp_path / "to"
    to.mkdir()
    (to / "old").write_bytes(b"old")
    async with Index({"a": b"11", "b": b"22", "old": b"new"}) as server:
        _, first = await sync(server.url, to)
        assert (counts(first), first["sync"]["changed"], server.bodies) == ((3, 0, 0), 0, 4)
        server.files = {"a": b"1!", "b": b"22"}
        ran, second = await sync(server.url, to)
        assert (counts(second), second["sync"]["gone"]) == ((1, 1, 0), 1)
        assert second["sync"]["changed"] == 1  # by the server's answer, as the list does not tell
        assert "files that the source has no longer: 1; --delete deletes them" in ran.err
        assert server.bodies == 5
        _, third = await sync(server.url, to, "--delete", "--max-delete", "1")
        assert (counts(third), tree(to)) == ((0, 2, 1), {"a": b"1!", "b": b"22"})


@pytest.mark.needs_plugins
async def test_an_index_means_all_directories_below_it(tmp_path):
    """Also with names that are encoded; what has gone from a directory is deleted, and empty ones with it."""
    to = tmp_path / "to"
    files = {"a": b"1", "d/a": b"22", "d/é 1/b": b"333", "d/é 1/c%": b"4", "e/b": b"5"}
    async with Index(files) as server:
        _, first = await sync(server.url, to)
        assert (counts(first), tree(to)) == ((5, 0, 0), files)
        server.files = {"a": b"1", "d/a": b"2!", "f/g/h": b"6"}
        _, second = await sync(server.url, to, "--delete", "--max-delete", "3")
        assert (counts(second), tree(to)) == ((2, 1, 3), server.files)
        assert not (to / "e").exists()
        below, _ = await sync(f"{server.url}f/", tmp_path / "below")
        assert (below.code, tree(tmp_path / "below")) == (0, {"g/h": b"6"})


@pytest.mark.needs_plugins  # a directory's page is a list
async def test_names_of_an_old_index_are_asked_for_by_their_bytes(tmp_path):
    """The directories too, whose pages have their own encodings; on disk they are in UTF-8."""
    root = b"<html><title>Index of /</title><a href=a>a</a><a href=%E9t%E9/>\xe9t\xe9/</a></html>"
    below = "<html><title>Index of /</title><meta charset=shift_jis><a href=表.txt></a></html>".encode(
        "cp932"
    )
    asked = []

    class Old(RecordingServer):
        async def converse(self, reader, writer):
            while await self.read_head(reader):
                path = self.line(-1).split()[1]
                asked.append(path)
                pages = {"/": root, "/%E9t%E9/": below}
                fields = ["Content-Type: text/html;charset=ISO-8859-1"] if path == "/" else []
                writer.write(reply(pages.get(path, b"12345"), *fields))

    async with Old() as server:
        ran, _ = await sync(server.url, tmp_path / "to")
    assert (ran.code, tree(tmp_path / "to")) == (0, {"a": b"12345", "été/表.txt": b"12345"})
    assert set(asked) == {"/", "/%E9t%E9/", "/a", "/%E9t%E9/%95%5C.txt"}


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (None, "the directory d/: its page is refused with HTTP 403"),
        (b"<html><title>Welcome</title></html>", "it has a page of its own instead of a list of its files"),
        (b"<html><title>Index of /d/</title><a href=x>", "d/: the page is cut off"),
        (b"<html><title>Index of /d/</title><a href=x%2fy/></a></html>", "the directory d/x%2fy/: "),
    ],
)
@pytest.mark.needs_plugins
async def test_a_directory_that_cannot_be_listed_deletes_nothing(tmp_path, page, why):
    """The others are brought, and the reason is told."""
    to = tmp_path / "to"
    async with Index({"a": b"1", "d/x": b"2"}) as server:
        assert counts((await sync(server.url, to))[1]) == (2, 0, 0)
        server.files = {"b": b"3", "d/x": b"2"} | ({"d/": page} if page else {})
        server.refused = () if page else ("d/",)
        refused, _ = await sync(server.url, to, "--delete", "--max-delete", "9")
        assert (refused.code, tree(to)) == (2, {"a": b"1", "d/x": b"2"})
        assert why in refused.err
        ran, _ = await sync(server.url, to)
        assert (ran.code, tree(to)) == (0, {"a": b"1", "b": b"3", "d/x": b"2"})
        assert "files may be missing from the list: " in ran.err
        assert why in ran.err


def page(links, before=""):
    """A page of a directory as nginx makes it."""
    return f"<html><title>Index of /</title>{before}<a href=../>../</a>{links}</html>".encode()


def linked(form):
    """The links of two files, of which only the first has an ordinary one."""
    return f'<a href="/d/1">1</a> {form}'


@pytest.mark.parametrize(
    "form",
    [
        '<a title="a>b" href="2">2</a>',
        '<a data-href="#x" href="2">2</a>',
        f'<a class="{"c " * 300}" href="2">2</a>',
        '<a href  =  "2">2</a>',
        '<a/href="2">2</a>',
        "<a href=/d/%32>2</a>",
        "<a href=/%64/2>2</a>",
        "<base href=/><a href=d/2>2</a>",
        "<!-- </html> --><a\nhref=2>2</a>",
    ],
)
@pytest.mark.needs_plugins
async def test_a_link_counts_however_it_is_written(tmp_path, form):
    """What HTML and URLs allow: nothing is deleted that is still listed, and no doubt is raised."""
    to = tmp_path / "to"
    async with Index({"d/1": b"1", "d/2": b"2", "gone": b"3"}) as server:
        await sync(server.url, to)
        server.files = {"d/1": b"1", "d/2": b"2"}
        server.files["d/"] = page(linked(form))
        ran, document = await sync(server.url, to, "--delete", "--max-delete", "9")
        assert (ran.code, document["sync"]["deleted"], "missing" in ran.err) == (0, 1, False), ran.err
        assert tree(to) == {"d/1": b"1", "d/2": b"2"}


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ("<a href=2?download=1>2</a>", "d/: the page links to http://127.0.0.1:{port}/…/2?<redacted 1 key>"),
        ("<a href=2#x>2</a>", "/…/2, which may be a file or a part of the list"),
        ("<a href=2?a=secret>2</a><a href=e/f>f</a>", "(and 1 more like it)"),
        ("<a href=http://localhost:{port}/d/2>2</a>", "the page links to http://localhost:{port}/…/2,"),
        ("<a href=https://cdn.example/d/2>2</a>", "the page links to https://cdn.example/…/2,"),
        ("<a href=file2:x>2</a>", "the page links to file2:"),
        ("<a href=//[x/2>2</a>", "which may be a file"),
        ("<a href=?page=2>next</a>", "the page links to http://127.0.0.1:{port}/…/?<redacted 1 key>,"),
        ("<a rel=next href=?q=2>next</a>", "says that a further page follows"),
        ("<base href=/other/><a href=2>2</a>", "{port}/…/2, which may be a file"),
        (f"<a title='{'x' * (1 << 20)}", "too long to read"),
        ("<a href=2", "d/: the page is cut off"),
        ("</html><a href=2>2</a><!-- </html> --", "d/: the page is cut off"),
    ],
)
@pytest.mark.needs_plugins
async def test_a_link_that_may_be_a_file_deletes_nothing(tmp_path, links, why):
    """A file that is listed in a way that cfetch cannot use has not gone; the others are brought."""
    to = tmp_path / "to"
    async with Index({"d/1": b"1", "d/2": b"2", "gone": b"3"}) as server:
        port = server.url.rsplit(":", 1)[1].strip("/")
        await sync(server.url, to)
        server.files = {"d/1": b"1!", "d/2": b"2", "d/": page(linked(links.replace("{port}", port)))}
        refused, _ = await sync(server.url, to, "--delete", "--max-delete", "9")
        assert (refused.code, why.replace("{port}", port) in refused.err) == (2, True), refused.err
        assert "secret" not in refused.err
        ran, _ = await sync(server.url, to)
        assert (ran.code, tree(to)) == (0, {"d/1": b"1!", "d/2": b"2", "gone": b"3"})


@pytest.mark.needs_plugins
async def test_a_page_without_html_may_be_cut_off(tmp_path):
    """Nobody can tell where it ends."""
    async with Index({"d/1": b"1", "d/2": b"2"}) as server:
        await sync(server.url, tmp_path)
        server.files = {"d/1": b"1", "d/": b"<title>Index of /d/</title><pre><a href=1>1</a>\n"}
        ran, _ = await sync(server.url, tmp_path, "--delete", "--max-delete", "9")
        assert (ran.code, "d/: the page is cut off" in ran.err) == (2, True)


@pytest.mark.needs_plugins
async def test_a_directory_may_go_on_by_its_header(tmp_path):
    """Of each page, not of the first only."""

    class Paged(Index):
        async def read_head(self, reader):
            head = await super().read_head(reader)
            self.fields = ("Link: </d/?2>; rel=next",) if head.startswith("GET /d/ ") else ()
            return head

    async with Paged({"a": b"1", "d/1": b"1"}) as server:
        ran, _ = await sync(server.url, tmp_path)
        assert (ran.code, tree(tmp_path)) == (0, {"a": b"1", "d/1": b"1"})
        ran, _ = await sync(server.url, tmp_path, "--delete")
        assert (ran.code, "d/: the answer goes on: its header Link" in ran.err) == (2, True)


@pytest.mark.needs_plugins
async def test_the_root_of_a_server_without_a_slash(tmp_path):
    """Its files are found, with names that go on like its port."""
    async with Index({"a": b"1", "8": b"2", "d/x": b"3"}) as server:
        ran, _ = await sync(server.url.rstrip("/"), tmp_path, "--delete")
        assert (ran.code, tree(tmp_path)) == (0, server.files)


@pytest.mark.needs_plugins
async def test_a_directory_whose_slash_is_lost_is_no_file(tmp_path):
    """Its page would take the place of its files, so it fails alone, until the directory is removed here."""
    to = tmp_path / "to"
    async with Index({"a": b"1", "b": b"1", "d/1": b"1", "d/e/2": b"2"}) as server:
        await sync(server.url, to)
        server.files = {"a": b"1!", "d": b"the page of d"}
        for code, words in ((0, ("--dry-run",)), (1, ())):
            ran, told = await sync(server.url, to, "--delete", "--max-delete", "9", *words)
            assert ran.code == code
            notes = ran.err if code else "".join(told["preview"]["notes"])
            assert (
                "d is a file without size and hash in the list and a directory here, which is kept" in notes
            )
        assert (told["failures"][0]["kind"], told["sync"]["deleted"]) == ("blocked", 1)
        assert tree(to) == {"a": b"1!", "d/1": b"1", "d/e/2": b"2"}
        shutil.rmtree(to / "d")
        ran, _ = await sync(server.url, to, "--delete", "--max-delete", "9")
        assert (ran.code, tree(to)) == (0, {"a": b"1!", "d": b"the page of d"})


async def test_a_file_of_a_stated_size_replaces_a_directory(tmp_path):
    """It is no page of that directory: the directory's own files are deleted first."""
    listed, to = tmp_path / "list.jsonl", tmp_path / "to"
    async with Index({"d/1": b"1", "k": b"2"}) as server:
        for names in (["d/1", "k"], ["d", "k"]):
            server.files = dict.fromkeys(names, b"1")
            listed.write_text(
                "".join(
                    json.dumps({"url": f"{server.url}{name}", "path": name, "size": 1}) + "\n"
                    for name in names
                )
            )
            ran, _ = await sync(str(listed), to, "--delete")
            assert (ran.code, tree(to)) == (0, server.files)


@pytest.mark.needs_plugins
async def test_a_link_has_lost_its_slash_and_its_text_has_not(tmp_path):
    """Its directory is read, not its page taken for a file; the source's own address is told."""
    async with Index({"a": b"1", "d/e/f/2": b"2"}) as server:
        whole = server.list_directory
        server.list_directory = lambda name: whole(name).replace(b'/">', b'">')
        ran, _ = await sync(server.url, tmp_path / "to")
        assert (ran.code, tree(tmp_path / "to")) == (0, server.files)
        server.place = "d"
        ran, _ = await sync(f"{server.url}d", tmp_path / "d")
        assert "d does not end with a slash, so its links lead to files beside it" in ran.err


@pytest.mark.needs_plugins
async def test_a_mirror_that_cfetch_made(tmp_path):
    """Its own directory there is passed over, at the root only, and that is told."""
    async with Index({"a": b"1", ".cfetch/x": b"2", "d/.cfetch/y": b"3"}) as server:
        ran, _ = await sync(server.url, tmp_path / "to", "--delete")
        assert (ran.code, tree(tmp_path / "to").keys()) == (0, {"a"}), ran.err
        assert (tmp_path / "to/d/.cfetch/y").read_bytes() == b"3"
        assert ".cfetch/ is left out" in ran.err
        assert not any("GET /.cfetch/" in head for head in server.heads)


@pytest.mark.needs_plugins
async def test_an_error_names_its_directory(tmp_path):
    """Not only the server."""

    class Failing(Index):
        async def converse(self, reader, writer):
            await self.read_head(reader)
            body = self.list_directory("") if len(self.heads) == 1 else b""
            writer.write(reply(body, status="200 OK" if body else "501 No", length=True))

    async with Failing({"a": b"1", "d e/1": b"1"}) as server:
        ran, _ = await sync(server.url, tmp_path)
        assert (ran.code, "cannot list the directory d e/ of http://127.0.0.1" in ran.err) == (2, True)


@pytest.mark.needs_plugins
async def test_names_in_several_encodings(tmp_path):
    """A raw space is encoded, and a file or directory that is linked twice counts once."""
    links = "<a href='d e/'>x</a> <a href=d%20%65/>x</a> <a href=a>a</a> <a href=%61>a</a> <a href=./a>a</a>"
    async with Index({"a": b"1", "d e/ü": b"2"}) as server:
        server.files[""] = page(links)
        server.list_directory = lambda name: page(links if not name else "<a href='ü'>ü</a>")
        ran, document = await sync(server.url, tmp_path, "--delete")
        assert (ran.code, counts(document)) == (0, (2, 0, 0)), ran.err
        assert tree(tmp_path) == {"a": b"1", "d e/ü": b"2"}


@pytest.mark.needs_plugins
async def test_a_directory_within_itself_is_an_error(tmp_path):
    """A server follows symlinks without an end."""

    class Endless(Index):
        def list_directory(self, name):
            return b"<html><title>Index of /</title><a href=f>f</a><a href=again/>again</a></html>"

    async with Endless({"f": b"1"}) as server:
        ran, _ = await sync(server.url, tmp_path / "to")
        assert (ran.code, len(server.heads)) == (2, 65)
        assert "is a directory linked within itself?" in ran.err
        assert tree(tmp_path / "to") == {}


@pytest.mark.needs_plugins
async def test_only_the_very_file_that_a_run_has_brought_is_deleted(tmp_path):
    """None that was changed or replaced since, also if a sync ran in between; none of a download."""
    to = tmp_path / "to"
    names = ("edited", "copied", "linked", "late", "own")
    async with Index({name: name.encode() for name in (*names, "theirs")}) as server:
        await asyncio.to_thread(call, "get", f"{server.url}theirs", "--to", to)
        assert counts((await sync(server.url, to))[1]) == (5, 1, 0)
        (to / "edited").write_bytes(b"EDITED")
        _replace_by_copy(to / "copied")
        (tmp_path / "linked").hardlink_to(to / "linked")
        assert counts((await sync(server.url, to))[1]) == (0, 6, 0)
        _replace_by_copy(to / "late")
        server.files = {"a": b"1"}
        ran, document = await sync(server.url, to, "--delete", "--max-delete", "2")
        assert (ran.code, document["sync"]) == (0, {"changed": 0, "gone": 2, "deleted": 1, "kept": 1})
    kept = {name: name.encode() for name in ("copied", "linked", "late", "theirs")}
    assert tree(to) == kept | {"a": b"1", "edited": b"EDITED"}


def _replace_by_copy(path):
    """With the same size, time and record."""
    Path(shutil.copy2(path, path.parent.parent)).replace(path)


async def test_a_file_becomes_a_directory_and_a_directory_a_file(tmp_path):
    """The old ones are deleted before the run, as they are in the way; what is not the sync's own stays."""
    to, lists = tmp_path / "to", tmp_path / "list.json"

    async def step(names, *words):
        async with Index({name: name.encode() for name in names}) as server:
            rows = [
                {
                    "url": f"{server.url}{name}",
                    "path": name,
                    "sha256": hashlib.sha256(name.encode()).hexdigest(),
                }
                for name in names
            ]
            lists.write_text(json.dumps({"version": 1, "files": rows}))
            return await sync(lists, to, *words)

    await step(["a", "d/e/b", "d/e/c", "x"])
    refused, _ = await step(["a/b", "d", "x"], "--delete", "--max-delete", "10%")
    assert (refused.code, tree(to)["a"]) == (2, b"a")
    ran, told = await step(["a/b", "d", "x"], "--delete", "--max-delete", "3")
    assert (ran.code, counts(told), told["sync"]["gone"]) == (0, (2, 1, 3), 3)
    assert tree(to) == {"a/b": b"a/b", "d": b"d", "x": b"x"}
    (to / "a/mine").write_bytes(b"a user's")
    ran, told = await step(["a", "d", "x"], "--delete", "--max-delete", "1")
    assert (ran.code, tree(to)["a/mine"]) == (1, b"a user's")


@pytest.mark.needs_plugins
async def test_a_file_on_another_volume_is_not_deleted(tmp_path):
    """It has the same name, and is a user's."""
    first, second = tmp_path / "1", tmp_path / "2"
    async with Index({str(number): b"x" * 9 for number in range(8)}) as server:
        await sync(server.url, first, "--to", second)
        own = sorted(tree(second))
        assert own
        for name in own:
            (first / name).write_bytes(b"a user's!")
        await sync(server.url, first, "--to", second)
        server.files = {name: body for name, body in server.files.items() if name not in own}
        _, document = await sync(server.url, first, "--to", second, "--delete", "--max-delete", "8")
        assert document["sync"]["deleted"] == len(own)
    assert {name: tree(first)[name] for name in own} == dict.fromkeys(own, b"a user's!")
    assert tree(second) == {}


@pytest.mark.needs_plugins
async def test_syncs_whose_volumes_overlap_are_kept_apart(tmp_path):
    """Each has a state of its own; also no batches are moved meanwhile, nor is anything deleted then."""
    volumes = [tmp_path / f"v{n}" for n in range(3)]
    more = [word for volume in volumes[1:] for word in ("--to", volume)]
    async with Index({"a/1": b"1", "a/2": b"2"}) as server:
        await sync(server.url, volumes[0], *more)
        server.files = {"a/1": b"1"}
        before = {volume: tree(volume) for volume in volumes}
        claims = [claim(volumes[1], name_source(server.url))]
        ran, _ = await sync(server.url, volumes[2], "--to", volumes[1], "--delete", "--max-delete", 9)
        assert ran.code == 4
        assert f" brings {volumes[1]} in step with the same source" in ran.err
        os.close(claims.pop())
        with closing(Directory(volumes[2])) as directory:
            occupy(directory)
            ran, _ = await sync(server.url, volumes[0], *more, "--delete", "--max-delete", 9)
        assert (ran.code, "is moving batches" in ran.err) == (4, True)
        assert {volume: tree(volume) for volume in volumes} == before
        _, document = await sync(server.url, volumes[0], *more, "--delete", "--max-delete", 9)
    assert document["sync"]["deleted"] == 1


@pytest.mark.needs_plugins
async def test_a_disk_too_full_for_a_guard_keeps_no_other_from_its_work(tmp_path, monkeypatch):
    """A guard is an empty file, which takes an inode; deletes make room there too."""
    first, second = tmp_path / "1", tmp_path / "2"
    async with Index({str(number): b"x" * 9 for number in range(8)}) as server:
        await sync(server.url, first, "--to", second)
        gone, *_ = tree(second)
        shutil.rmtree(second / ".cfetch" / GUARDS)
        del server.files[gone]
        server.files["new"] = b"y"

        def refuse(directory, **_):
            if directory == second / ".cfetch" / GUARDS:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            make_private(directory)

        monkeypatch.setattr("cfetch.storage.claims.make_private", refuse)
        ran, document = await sync(server.url, first, "--to", second, "--delete", "--max-delete", 9)
    assert (ran.code, document["sync"]["deleted"]) == (0, 1)
    assert tree(first) | tree(second) == server.files


@pytest.mark.needs_plugins
async def test_a_list_that_may_not_be_whole_deletes_nothing(tmp_path):
    """One that is cut off, goes on elsewhere, comes from another place, or is empty."""
    to, path = tmp_path / "to", tmp_path / "items.json"
    words = ("--delete", "--max-delete", "100%")
    async with Index({"a": b"1", "b": b"2"}) as server:
        await sync(server.url, to)
        server.files = {"a": b"1"}
        server.end = ""
        ran, _ = await sync(server.url, to, *words)
        assert (ran.code, "the page is cut off" in ran.err) == (2, True)
        server.end, server.fields = "</html>", ("Link: </?2>; title=\"a,b\"; REL='next'",)
        ran, _ = await sync(server.url, to, *words)
        assert (ran.code, "its header Link leads to a further page" in ran.err) == (2, True)
        server.fields = ()
        for server.place in ("old/", "?page=2"):
            ran, _ = await sync(server.url, to, *words)
            assert (ran.code, "its server redirects it to http" in ran.err) == (2, True)
        server.place, server.files = "", {}
        ran, document = await sync(server.url, to, *words, "--allow-empty")
        assert (ran.code, document["sync"]["deleted"]) == (0, 0)
        assert "files not deleted, as the list is empty: 2\n" in ran.err
        assert tree(to) == {"a": b"1", "b": b"2"}
        path.write_text('{"type": "FeatureCollection", "features": [], "links": [{"rel": "next"}]}')
        ran, _ = await sync(path, to, *words)
        assert (ran.code, "leads to further items" in ran.err) == (2, True)
        server.files = {"a": b"1"}
        assert (await sync(server.url, to, *words))[1]["sync"]["deleted"] == 1


async def test_nothing_is_deleted_by_a_run_that_has_not_brought_all(tmp_path):
    """Nor by a list that is empty, or from which rows were left out."""
    to, path = tmp_path / "to", tmp_path / "list.txt"
    async with Index({"a": b"1", "b": b"2"}) as server:
        path.write_text(f"{server.url}a\n{server.url}b\n")
        await sync(path, to)
        path.write_text(f"{server.url}a\n{server.url}nix\n")
        ran, document = await sync(path, to, "--delete", "--max-delete", "1", "--max-attempts", "1")
        assert (ran.code, counts(document)) == (1, (0, 1, 0))
        assert "files not deleted, as the run has not brought all: 1\n" in ran.err
        assert [plan["state"] for plan in await plans(to)] == ["completed", "inflight"]
        path.write_text(f"{server.url}a\n")
        assert (await sync(path, to))[0].code == 0
        assert "inflight" not in [plan["state"] for plan in await plans(to)]
        path.write_text("# nothing\n")
        assert (await sync(path, to, "--delete"))[0].code == 2
        path.write_text(f"{server.url}a\nhttp://:x/\n")
        ran, _ = await sync(path, to, "--delete", "--bad-rows", "skip")
        assert (ran.code, "rows of" in ran.err) == (2, True)
    assert tree(to) == {"a": b"1", "b": b"2"}


async def test_a_file_whose_new_version_never_came_is_deleted_when_it_has_gone(tmp_path):
    """The mark of an older version changes a time of the file, and it is the sync's own all the same."""
    to, path = tmp_path / "to", tmp_path / "list.jsonl"
    async with Index({"a": b"1", "b": b"2"}) as server:

        def write(**links):
            rows = [{"url": server.url + links[name], "path": name} for name in links]
            hashes = [hashlib.sha256(server.files.get(row["path"], b"")).hexdigest() for row in rows]
            texts = [json.dumps(row | {"sha256": hex_}) for row, hex_ in zip(rows, hashes, strict=True)]
            path.write_text("\n".join(texts))

        write(a="a", b="b")
        await sync(path, to)
        server.files = {"a": b"other", "b": b"2"}
        write(a="nix", b="b")
        assert (await sync(path, to, "--max-attempts", "1"))[0].code == 1
        write(b="b")
        ran, document = await sync(path, to, "--delete", "--max-delete", "1")
        assert (ran.code, document["sync"]["deleted"]) == (0, 1)
    assert tree(to) == {"b": b"2"}


async def test_a_manifest_with_hashes(tmp_path):
    """They are the versions, and prove the files; a file that another tool has put is left alone for ever."""
    to, path = tmp_path / "to", tmp_path / "m.json"
    to.mkdir()
    (to / "theirs").write_bytes(b"t")
    files = {"a": b"1", "theirs": b"t"}

    async with Index(files) as server:

        def write():
            entries = [
                {"url": server.url + name, "sha256": hashlib.sha256(body).hexdigest()}
                for name, body in server.files.items()
            ]
            path.write_text(json.dumps({"version": 1, "files": entries}))

        write()
        assert counts((await sync(path, to))[1]) == (1, 1, 0)
        server.files = {"a": b"2"}
        write()
        _, document = await sync(path, to, "--delete")
        assert (counts(document), document["sync"]) == (
            (1, 0, 0),
            {"changed": 1, "gone": 0, "deleted": 0, "kept": 0},
        )
    assert tree(to) == {"a": b"2", "theirs": b"t"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-", "--to", "to"), "standard input has no name"),
        (("s3://bucket/d/", "--to", "s3://other/d", "--state", "s"), "is for directories"),
        (("m.json", "--to", "to", "--max-delete", "x"), "max-delete is 'x'"),
    ],
)
def test_what_cannot_be_synced(words, said, tmp_path, monkeypatch):
    """Said before anything is asked for."""
    monkeypatch.chdir(tmp_path)
    ran = call("sync", *words)
    assert (ran.code, said in ran.err) == (2, True)


@pytest.mark.needs_plugins  # a directory's page is a list
async def test_what_is_not_taken_is_neither_fetched_nor_gone(tmp_path):
    """Files of earlier syncs under other paths stay, also with --delete."""
    to = tmp_path / "to"
    async with Index({"a.csv": b"1", "d/b.csv": b"2", "d/c.bin": b"3", "old.csv": b"4"}) as server:
        await sync(server.url, to)
        server.files = {"a.csv": b"1!", "d/b.csv": b"2!", "d/new.bin": b"5"}
        only = ("--include", "*.csv", "--exclude", "d/*", "--delete", "--max-delete", "9")
        ran, _ = await sync(server.url, to, *only)
        assert (ran.code, tree(to)) == (0, {"a.csv": b"1!", "d/b.csv": b"2", "d/c.bin": b"3"})
        none, _ = await sync(server.url, to, "--include", "*.nope", "--delete")
        assert (none.code, "no path matches --include" in none.err) == (2, True)
        await sync(server.url, to, "--delete", "--max-delete", "9")
        assert tree(to) == {"a.csv": b"1!", "d/b.csv": b"2!", "d/new.bin": b"5"}


@pytest.mark.needs_plugins
async def test_a_base_leads_to_the_directories_of_its_own_server(tmp_path):
    """Their pages are asked for where the base is; a base on another server is refused with the way out."""
    to = tmp_path / "to"
    base = "<base href={}>"
    links = "<a href=1>1</a><a href=e/>e/</a>"
    files = {"files/1": b"1", "files/e/2": b"2"}
    async with Index({**files, "d/": page(links, base.format("/files/"))}) as server:
        ran, document = await sync(f"{server.url}d/", to, "--delete")
        assert (counts(document), tree(to)) == ((2, 0, 0), {"1": b"1", "e/2": b"2"}), ran.err
        server.files["d/"] = page(links, base.format("http://127.0.0.1:1/files/"))
        refused, _ = await sync(f"{server.url}d/", to, "--delete")
        assert (refused.code, "--from-format links" in refused.err, len(tree(to))) == (2, True, 2)
