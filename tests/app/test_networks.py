"""The how-tos of docs/networks.md, followed word by word against stand-ins of the hosts that they name."""

import asyncio
import base64
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.app.test_recipes import COOKIES, LOGIN_PAGE, Host
from tests.conditions.runner import call, secrets_in
from tests.engine.drive import tree
from tests.storage.s3_server import PREFIX
from tests.wire.proxy import Proxy
from tests.wire.raw_server import RecordingServer, reply

PAGE = (Path(__file__).parents[2] / "docs/networks.md").read_text()
BODY = b"the file's bytes"
QUICK = ("--quiet", "--durability", "crash")


def read_steps(title):
    """The lines of the commands of a section, in their order."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


async def follow(monkeypatch, line, replaced=()):
    """Do what a line says: set variables, or run cfetch; the hosts are replaced by stand-ins."""
    for old, new in replaced:
        line = line.replace(old, new)
    words = shlex.split(line)
    if words[0] == "export":
        for word in words[1:]:
            monkeypatch.setenv(*word.split("=", 1))
        return None
    if words[0] == "chmod":
        Path(words[2]).chmod(int(words[1], 8))
        return None
    return await asyncio.to_thread(call, *words[1:], *QUICK)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory, with a list of a file that only a proxy can reach."""
    monkeypatch.chdir(tmp_path)
    Path("urls.txt").write_text("http://archive.test/a.bin\n")
    return tmp_path


async def test_behind_a_proxy(here, monkeypatch):
    """By option, with a password from the environment, and by the variables of a cluster."""
    by_option, export, with_password, from_environment = read_steps("Behind a proxy")
    login = base64.b64encode(b"USER:PASSWORD").decode()
    async with (
        Host({"/a.bin": reply(BODY)}) as archive,
        Proxy() as plain,
        Proxy(login=login) as closed,
    ):
        plain.target_port = closed.target_port = archive.port
        for step, proxy in ((by_option, plain), (export, closed), (with_password, closed)):
            ran = await follow(monkeypatch, step, [("proxy.example.org:3128", f"127.0.0.1:{proxy.port}")])
            if ran is not None:
                assert (ran.code, ran.said, tree(here / "data")) == (0, "", {"a.bin": BODY})
                shutil.rmtree("data")
        monkeypatch.delenv("CFETCH_PROXY")
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{plain.port}")
        ran = await follow(monkeypatch, from_environment)
    assert (ran.code, tree(here / "data")) == (0, {"a.bin": BODY})
    assert len(archive.heads) == 3
    assert "PASSWORD" not in "".join(archive.heads)


async def test_log_in_with_cookies(here, monkeypatch):
    """A session that has ended is told as a page; new cookies and the same command bring the file."""
    protect, download = read_steps("Log in with cookies")
    async with Host({"/a.bin": reply(BODY)}, "Cookie: urs=CANARYCOOKIE\r\n") as archive:
        Path("urls.txt").write_text(f"{archive.url}a.bin\n")
        Path("cookies.txt").write_text(COOKIES.replace("CANARYCOOKIE", "OLD"))
        await follow(monkeypatch, protect)
        archive.login, archive.paths = None, {"/a.bin": LOGIN_PAGE}
        archive.login = "Cookie: urs=OLD\r\n"
        ended = await follow(monkeypatch, download)
        archive.login, archive.paths = "Cookie: urs=CANARYCOOKIE\r\n", {"/a.bin": reply(BODY)}
        Path("cookies.txt").write_text(COOKIES)
        ran = await follow(monkeypatch, download)
    assert Path("cookies.txt").stat().st_mode & 0o77 == 0
    assert ended.code == 1
    assert "web page" in ended.said
    assert (ran.code, ran.said, tree(here / "data")) == (0, "", {"a.bin": BODY})


async def test_earthdata(here, monkeypatch):
    """The token goes to the archive, and not to the storage to which it redirects."""
    async with (
        Host({"/blob": reply(BODY)}) as storage,
        Host({}, "Authorization: Bearer CANARYTOKEN\r\n") as archive,
    ):
        archive.paths = {"/a.nc": reply(b"", f"Location: {storage.url}blob", status="303 See Other")}
        Path("urls.txt").write_text(f"{archive.url}a.nc\n")
        for step in read_steps("NASA Earthdata"):
            ran = await follow(monkeypatch, step, [("…", "CANARYTOKEN")])
    assert (ran.code, ran.said, tree(here / "data")) == (0, "", {"a.nc": BODY})
    assert secrets_in(".", sealed=True) == []


@pytest.mark.needs_plugins
async def test_private_buckets(bucket, here, monkeypatch):
    """Keys of the environment, a prefix, and a store of one's own."""
    bucket.put("x/a.bin", BODY)
    for step in read_steps("Private buckets"):
        known = [("…", "CANARY"), ("BUCKET/PREFIX", f"{bucket.name}/{PREFIX}"), ("eu-central-1", "us-east-1")]
        ran = await follow(monkeypatch, step, known)
    assert (ran.code, ran.said, tree(here / "data")) == (0, "", {"x/a.bin": BODY})


class Tape(RecordingServer):
    """Says that the file is being fetched, then sends it."""

    async def converse(self, reader, writer):
        while True:
            await self.read_head(reader)
            is_first = len(self.heads) == 1
            writer.write(reply(b"", "Retry-After: 0.1", status="202 Accepted") if is_first else reply(BODY))


async def test_slow_archives(here, monkeypatch):
    """What comes from tape is asked for again when the archive says."""
    (step,) = read_steps("Slow archives")
    async with Tape() as archive:
        Path("urls.txt").write_text(f"{archive.url}a.bin\n")
        ran = await follow(monkeypatch, step)
    assert (ran.code, ran.said, tree(here / "data")) == (0, "", {"a.bin": BODY})
    assert len(archive.heads) == 2
