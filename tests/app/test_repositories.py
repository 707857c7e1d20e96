"""Hugging Face repositories as sources: a hub that pages its lists and redirects to a storage elsewhere."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.errors import UsageError
from cfetch.run import listings
from cfetch.run.listings import find_listing, list_files
from cfetch.wire.network import DIRECT
from tests.cli.verbs import cfetch
from tests.conditions.runner import secrets_in
from tests.engine.drive import tree
from tests.wire.raw_server import RecordingServer, reply

TOKEN = "CANARYTOKEN"
LARGE, SMALL = b"large" * 1000, b"small"
TREE = "/api/datasets/o/n/tree/main/d?recursive=true"
# From the tree of a public model, ggerganov/whisper.cpp.
RECORDED = (
    b'[{"type":"file","oid":"bb0749e3c17cdf1d040a7e95fbf45610a212ec0a","size":3196,"path":"README.md"},'
    b'{"type":"directory","oid":"d1","size":0,"path":"d"},'
    b'{"type":"file","oid":"819841c70bdf4488c4ff778f8becdcb37df43969","size":1624555275,"lfs":{"oid":'
    b'"1fc70f774d38eb169993ac391eea357ef47c88757ef72ee5943879b7e8e2bc69","size":1624555275,"pointerSize":135},'
    b'"xetHash":"5a4b65b05933d70ce9d5aa6265eb128fa5eba38f6fee40836fdedc4d2fde42ad",'
    b'"path":"ggml-large-v3-turbo.bin"}]'
)


class Hub(RecordingServer):
    """Answers a target by what ``targets`` say. A hub with a token gives nothing without it."""

    def __init__(self, targets, token=None):
        super().__init__()
        self.targets = targets
        self.token = token

    async def converse(self, reader, writer):
        while True:
            head = await self.read_head(reader)
            is_known = f"Authorization: Bearer {self.token}" in head if self.token else "CANARY" not in head
            refused = reply(b"", "X-Error-Code: RepoNotFound", status="401 Unauthorized")
            found = self.targets.get(self.line(-1).split()[1], reply(b"", status="404 Not Found"))
            writer.write(found if is_known else refused)


def page(*entries, after=None):
    fields = [f'Link: <{after}>; rel="next"'] if after else []
    return reply(json.dumps(entries).encode(), *fields)


def file_of(path, body, *, large=False):
    oid = hashlib.sha1(b"blob %d\0%s" % (len(body), body)).hexdigest()
    entry = {"type": "file", "oid": oid, "size": len(body), "path": path}
    if large:
        entry |= {"size": 130, "lfs": {"oid": hashlib.sha256(body).hexdigest(), "size": len(body)}}
    return entry


def listed(url):
    listing = find_listing(url)
    assert listing is not None
    return list(list_files(listing, SystemClock(), DIRECT))


@pytest.fixture
def env(monkeypatch):
    """An environment without a hub of its own."""
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_a_pattern_page_by_page(env, tmp_path):
    """The next page is asked of the hub, wherever the link points; the token goes to the hub alone."""
    async with Hub({"/blob": reply(LARGE)}) as storage, Hub({}, TOKEN) as hub:
        link = reply(b"", f"Location: {storage.url}blob", status="302 Found")
        hub.targets = {
            TREE: page(
                file_of("d/a.bin", LARGE, large=True), after=f"{storage.url}x?recursive=true&cursor=2"
            ),
            f"{TREE}&cursor=2": page(file_of("d/x/b.bin", SMALL), file_of("d/no.txt", b"")),
            "/datasets/o/n/resolve/main/d/a.bin": link,
            "/datasets/o/n/resolve/main/d/x/b.bin": reply(SMALL),
        }
        env.setenv("HF_ENDPOINT", hub.url)
        env.setenv("HF_TOKEN", TOKEN)
        source, where = "hf://datasets/o/n/d/**/*.bin", ["--to", tmp_path / "to", "--json", "--quiet"]
        done = await cfetch("download", source, *where)
        assert (done.code, done.document["bytes"]["total"]) == (0, len(LARGE) + len(SMALL))
        assert tree(tmp_path / "to") == {"a.bin": LARGE, "x/b.bin": SMALL}
        records = [json.loads(line) for line in Path(done.document["metrics"]).read_text().splitlines()]
        verified = {record["path"]: record["verified"] for record in records if "path" in record}
        assert verified == {"a.bin": "sha256", "x/b.bin": "git_sha1"}
        hub.targets["/datasets/o/n/resolve/main/d/x/b.bin"] = reply(SMALL[::-1])
        wrong = await cfetch("download", source, "--to", tmp_path / "wrong", "--json", "--quiet")
        assert (wrong.code, tree(tmp_path / "wrong")) == (1, {"a.bin": LARGE})
        assert "the git_sha1 of the bytes is" in wrong.err
        got = await cfetch("get", "hf://datasets/o/n/d/a.bin", "--to", tmp_path / "got", "--quiet")
        assert (got.code, tree(tmp_path / "got")) == (0, {"a.bin": LARGE})
        built = await cfetch("manifest", "build", source, "--bearer-env", "HF_TOKEN")
        rows = json.loads(built.out)["files"]
        assert [(row["path"], row["size"]) for row in rows] == [
            ("a.bin", len(LARGE)),
            ("x/b.bin", len(SMALL)),
        ]
        env.delenv("HF_TOKEN")
        refused = await cfetch("download", source, *where)
        assert refused.code == 2
        assert "it is private: set HF_TOKEN" in refused.err
    assert not any("CANARY" in head for head in storage.heads)
    assert secrets_in(tmp_path, sealed=True) == []


async def test_what_a_hub_says_of_a_file(env):
    """A large file has its size and SHA-256, whatever its own entry in git is; a circle is no end."""
    async with Hub({}) as hub:
        env.setenv("HF_ENDPOINT", hub.url)
        target = "/api/models/o/n/tree/main?recursive=true"
        hub.targets = {target: reply(RECORDED)}
        [(readme, version), (large, _)] = await asyncio.to_thread(listed, "hf://o/n")
        assert version == '"bb0749e3c17cdf1d040a7e95fbf45610a212ec0a"'
        git = {"size": 3196, "git_sha1": "bb0749e3c17cdf1d040a7e95fbf45610a212ec0a"}
        assert readme == {"url": f"{hub.url}o/n/resolve/main/README.md", "path": "README.md", **git}
        assert (large["size"], large["sha256"][:8]) == (1_624_555_275, "1fc70f77")
        hub.targets = {target: page(after=target)}
        with pytest.raises(UsageError, match="lead back to earlier ones"):
            await asyncio.to_thread(listed, "hf://o/n/")
        pages = {f"{target}&cursor={n}": page(after=f"{target}&cursor={n + 1}") for n in range(5)}
        hub.targets = {target: page(after=f"{target}&cursor=0"), **pages}
        env.setattr(listings, "MOST_IDLE_PAGES", 3)
        with pytest.raises(UsageError, match="4 pages one after the other have no file"):
            await asyncio.to_thread(listed, "hf://o/n/")
        moved = f"{hub.url}api/models/o/new/tree/main?recursive=true"
        hub.targets = {
            target: reply(b"", f"Location: {moved}", status="307 Temporary Redirect"),
            target.replace("/n/", "/new/"): reply(RECORDED),
        }
        with pytest.raises(UsageError, match="if the repository has another name now, give that"):
            await asyncio.to_thread(listed, "hf://o/n")
        hub.targets = {target: reply(b"<html>")}
        with pytest.raises(UsageError, match="no list of files"):
            await asyncio.to_thread(listed, "hf://o/n")
        hub.targets = {target: reply(b"", "X-Error-Code: RevisionNotFound", status="404 Not Found")}
        with pytest.raises(UsageError, match="no such revision"):
            await asyncio.to_thread(listed, "hf://o/n/*.bin")


async def test_a_sync_leaves_out_a_name_that_no_file_can_have(env, tmp_path):
    """Only on request, which the refusal names; nothing is deleted by a list of which a part is unknown."""
    async with Hub({}) as hub:
        env.setenv("HF_ENDPOINT", hub.url)
        listed_files = [file_of("d/a.bin", SMALL), file_of("d/b\nb", SMALL)]
        hub.targets = {TREE: page(*listed_files), "/datasets/o/n/resolve/main/d/a.bin": reply(SMALL)}
        sync = ("sync", "hf://datasets/o/n/d/", "--to", tmp_path / "to", "--quiet")
        refused = await cfetch(*sync)
        assert (refused.code, "--bad-rows skip leaves such rows out" in refused.err) == (2, True)
        ran = await cfetch(*sync, "--bad-rows", "skip")
        assert (ran.code, tree(tmp_path / "to")) == (0, {"a.bin": SMALL})
        deleting = await cfetch(*sync, "--bad-rows", "skip", "--delete")
        assert (deleting.code, "nobody can tell which files have gone" in deleting.err) == (2, True)
