"""The commands of docs/recipes.md, against stand-ins of the hosts that they name.

Each host asks for its login and redirects to a storage of another origin, which refuses a request with one.
"""

import asyncio
import base64
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.conditions.runner import call, secrets_in
from tests.engine.drive import tree
from tests.wire.raw_server import RecordingServer, reply

RECIPES = (Path(__file__).parents[2] / "docs/recipes.md").read_text()
BODY = b"the file's bytes"
TOKEN = "CANARYTOKEN"
LOGIN_PAGE = reply(b"<!DOCTYPE html><html><title>Earthdata Login</title></html>", "Content-Type: text/html")
KEPT_HERE = ("netrc", "cookies.txt")
COOKIES = "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t4102444800\turs\tCANARYCOOKIE\n"
NETRC = "machine 127.0.0.1 login NAME password CANARYKEY\n"


def recipe(title, kind="sh"):
    """The first words ``cfetch`` of a section, or its first program."""
    section = RECIPES.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)
    return "\n".join(blocks)


class Host(RecordingServer):
    """Answers a path by what ``paths`` say, if the request has the line ``login``; else 401."""

    def __init__(self, paths, login=None):
        super().__init__()
        self.paths = paths
        self.login = login

    async def converse(self, reader, writer):
        while True:
            head = await self.read_head(reader)
            is_known = (
                (self.login in head) if self.login else ("Authorization" not in head and "Cookie" not in head)
            )
            found = self.paths.get(self.line(-1).split()[1]) if is_known else None
            writer.write(found or reply(b"", status="401 Unauthorized" if not is_known else "404 Not Found"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory, and the variables that the recipes name."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("CFETCH_")]:
        monkeypatch.delenv(name)
    for name in ("HF_TOKEN", "EDL_TOKEN", "KAGGLE_API_TOKEN"):
        monkeypatch.setenv(name, TOKEN)
    (tmp_path / "netrc").write_text(NETRC)
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path


async def follow_recipe(command, **replaced):
    """Run the words of a recipe with other hosts; the canary is nowhere afterwards."""
    for old, new in replaced.values():
        assert old in command
        command = command.replace(old, new)
    ran = await asyncio.to_thread(call, *shlex.split(command)[1:], "--quiet", "--max-attempts", "1")
    assert (ran.code, ran.said) == (0, "")
    assert [name for name in secrets_in(".", sealed=True) if name not in KEPT_HERE] == []


def line_of(title, start):
    return next(line for line in recipe(title).splitlines() if line.startswith(start))


async def test_hugging_face(here, monkeypatch):
    """The tree and each file are asked for with the token, the storage without."""
    bearer = f"Authorization: Bearer {TOKEN}\r\n"
    tree_of = [{"type": "file", "path": "data/a.parquet", "size": len(BODY), "oid": "0"}]
    async with Host({"/blob?sig=1": reply(BODY)}) as storage, Host({}, bearer) as hub:
        hub.paths = {
            "/api/datasets/OWNER/NAME/tree/main/data?recursive=true": reply(json.dumps(tree_of).encode()),
            "/datasets/OWNER/NAME/resolve/main/data/a.parquet": reply(
                b"", f"Location: {storage.url}blob?sig=1", status="302 Found"
            ),
        }
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        await follow_recipe(line_of("Hugging Face", "cfetch download"))
    assert tree(here / "data") == {"a.parquet": BODY}


async def test_earthdata(here):
    """The list's only host gets the token."""
    async with (
        Host({"/blob": reply(BODY)}) as storage,
        Host({}, f"Authorization: Bearer {TOKEN}\r\n") as archive,
    ):
        archive.paths = {"/g/a.nc": reply(b"", f"Location: {storage.url}blob", status="303 See Other")}
        (here / "urls.txt").write_text(f"{archive.url}g/a.nc\n")
        await follow_recipe(line_of("NASA Earthdata", "cfetch download"))
    assert tree(here / "data") == {"a.nc": BODY}


async def test_earthdata_with_the_cookies_of_a_browser(here):
    """Without them the archive redirects to the login of Earthdata, which is told as such."""
    [words] = re.findall(r"`(cfetch download urls.txt --cookies cookies.txt)`", RECIPES)
    command = f"{words} --to data/"
    (here / "cookies.txt").write_text(COOKIES)
    async with (
        Host({"/blob": reply(BODY)}) as storage,
        Host({"/g/a.nc": reply(b"", "Location: /login", status="302 Found"), "/login": LOGIN_PAGE}) as closed,
        Host({}, "Cookie: urs=CANARYCOOKIE\r\n") as archive,
    ):
        elsewhere = storage.url.replace("127.0.0.1", "localhost")  # cookies are for a host, whatever its port
        archive.paths = {"/g/a.nc": reply(b"", f"Location: {elsewhere}blob", status="303 See Other")}
        (here / "urls.txt").write_text(f"{archive.url}g/a.nc\n")
        await follow_recipe(command)
        (here / "urls.txt").write_text(f"{closed.url}g/a.nc\n")
        words = ["download", "urls.txt", "--to", "closed/", "--quiet", "--max-attempts", "1"]
        without = await asyncio.to_thread(call, *words)
    assert tree(here / "data") == {"a.nc": BODY}
    assert (without.code, tree(here / "closed")) == (1, {})
    assert "login" in without.said


@pytest.mark.parametrize(
    ("option", "login"),
    [
        ("--bearer-env KAGGLE_API_TOKEN", f"Bearer {TOKEN}"),
        ("--netrc", f"Basic {base64.b64encode(b'NAME:CANARYKEY').decode()}"),
    ],
)
async def test_kaggle(here, option, login):
    """Today's token, or the older key in ~/.netrc."""
    command = next(line for line in recipe("Kaggle").splitlines() if option in line)
    async with (
        Host({"/blob": reply(BODY)}) as storage,
        Host({}, f"Authorization: {login}\r\n") as kaggle,
    ):
        found = reply(b"", f"Location: {storage.url}blob", status="302 Found")
        kaggle.paths = {"/api/v1/datasets/download/OWNER/NAME": found}
        await follow_recipe(command, url=("https://www.kaggle.com/", kaggle.url))
    assert (here / "NAME.zip").read_bytes() == BODY


@pytest.mark.needs_plugins
async def test_planetary_computer(here, monkeypatch):
    """Each link is signed before it is used, by the program of the page."""
    async with Host({"/c/a.tif?sv=1&sig=2": reply(BODY)}) as storage:
        href = f"{storage.url}c/a.tif"
        signed = {"href": f"{href}?sv=1&sig=2", "msft:expiry": "2999-01-01T00:00:00Z"}
        async with Host({f"/sign?href={href.replace(':', '%3A').replace('/', '%2F')}": b""}) as signer:
            signer.paths = dict.fromkeys(signer.paths, reply(json.dumps(signed).encode()))
            monkeypatch.setenv("PC_SIGN", f"{signer.url}sign")
            (here / "sign.py").write_text(recipe("Microsoft Planetary Computer", "python"))
            item = {"type": "Feature", "stac_version": "1.0.0", "id": "i", "assets": {"x": {"href": href}}}
            (here / "items.json").write_text(json.dumps(item))
            make, run = recipe("Microsoft Planetary Computer").splitlines()
            make = make.replace("cfetch", f"{shlex.quote(sys.executable)} -m cfetch", 1)
            maker = await asyncio.create_subprocess_shell(make)
            assert await maker.wait() == 0
            await follow_recipe(run, python=("python3 ", f"{sys.executable} "))
    assert tree(here / "data") == {"i/a.tif": BODY}
