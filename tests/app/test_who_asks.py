"""Logins of the user's own in whole runs: they reach their hosts, and nothing else."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cfetch.app.download import prepare
from cfetch.app.get import prepare_get
from cfetch.app.planned import prepare_planned
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.use_cases.follow import follow
from cfetch.plugins.follow.use_cases.follow_options import FollowOptions
from tests.cli.verbs import cfetch
from tests.conditions.runner import call, secrets_in
from tests.tasks.processes.soak import children_of
from tests.wire.raw_server import RawServer, reply

SECRETS = {"CFETCH_HEADER": "X-Key: CANARYHEADER\nX-Two: CANARYTWO", "TOKEN": "CANARYTOKEN"}
COOKIES = "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/{}\tFALSE\t0\tc\tCANARYCOOKIE\n"


class Watching(RawServer):
    """Looks at all files below ``root``, and at the command lines of ``pid`` and its children, when asked."""

    def __init__(self, *replies, root):
        super().__init__(*replies)
        self.root = root
        self.pid = 0
        self.seen = []

    async def converse(self, reader, writer):
        pids = [self.pid, *children_of(self.pid)]
        self.seen.append(secrets_in(self.root, sealed=True))
        self.seen += [Path(f"/proc/{pid}/cmdline").read_bytes().count(b"CANARY") for pid in pids]
        self.processes = len(pids)
        await super().converse(reader, writer)


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_logins_reach_their_host_and_nothing_else(tmp_path, processes):
    """No log, no record, no file and no command line holds them; no host of a redirect gets them."""
    files = tmp_path / "files"
    files.mkdir()
    (tmp_path / "cookies").write_text(COOKIES.format("in"))
    async with Watching(reply(b"x"), root=files) as away, RawServer() as start:
        start.replies = [reply(b"", f"Location: {away.url}", status="302 x")]
        (files / "m.txt").write_text(f"{start.url}in/a\n{start.url}in/b\n")
        words = ["download", files / "m.txt", "--to", files / "to", "--processes", processes, "--json"]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cfetch", *map(str, words)),
            *("--bearer-env", "TOKEN", "--cookies", str(tmp_path / "cookies"), "--log-format", "json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | SECRETS,
        )
        away.pid = child.pid
        out, err = await asyncio.wait_for(child.communicate(), 300)
    assert (child.returncode, json.loads(out)["files"]["done"]) == (0, 2)
    assert (away.processes > 1) is (processes == "2")  # the second one may come late
    for head in start.heads:
        assert [
            secret for secret in (*SECRETS.values(), "CANARYCOOKIE") if secret.split()[-1] not in head
        ] == []
    assert "CANARY" not in "".join(away.heads) + out.decode() + err.decode()
    assert not any(away.seen)
    assert secrets_in(files, sealed=True) == []


def test_several_hosts_share_no_login(tmp_path, in_place):
    """Nothing is fetched until the user says who may have it; one host alone needs no word."""
    _, settings = in_place
    manifest = tmp_path / "m.txt"
    manifest.write_text("http://a.test:81/x\nhttp://b.test/y\n")
    options = {"to": settings.to, "header": ("X-Key: CANARY",)}
    with (
        pytest.raises(ConfigError, match=r"2 hosts \(a.test:81, b.test\); .*--header-host") as caught,
        prepare(str(manifest), Settings(**options), env={}),
    ):
        pass
    assert "CANARY" not in str(caught.value)
    with prepare(str(manifest), Settings(**options, header_host=("b.test",)), env={}) as prepared:
        assert keys_for(prepared, "http://a.test:81/", "http://b.test/") == [[], ["X-Key"]]
        instant = prepared.schedule().instant
    with (
        pytest.raises(ConfigError, match="2 hosts"),
        prepare_planned(instant, Settings(**options), env={}),
    ):
        pass


async def test_commands_that_ask_for_lists_or_sizes_have_logins_too(tmp_path, monkeypatch):
    """``manifest check`` gives them to the list's host; ``manifest build`` to that of the files alone."""
    monkeypatch.setenv("TOKEN", "CANARYTOKEN")
    login = ("--bearer-env", "TOKEN", "--user-agent", "me/1")
    async with RawServer(then="keep") as files, RawServer() as lists:
        files.replies = [reply(b"12345")] * 2
        lists.replies = [reply(f"{files.url}a\n".encode())] * 2
        for words in (
            ["check", f"{lists.url}l.txt"],
            ["build", f"{lists.url}l.txt", "-o", tmp_path / "m.json"],
        ):
            ended = await cfetch("manifest", *words, *login)
            assert ended.code == 0, ended.err
    assert ["CANARYTOKEN" in head for head in lists.heads] == [True, False]
    assert files.heads
    assert all("CANARYTOKEN" in head and "me/1" in head for head in files.heads)


def test_headers_that_go_nowhere_are_told(in_place, tmp_path):
    """Objects of a store are asked for with the store's own login."""
    _, settings = in_place
    (tmp_path / "m.txt").write_text("s3://bucket/x\n")
    settings = Settings(to=settings.to, header=("X-Key: CANARY",))
    with prepare(str(tmp_path / "m.txt"), settings, env={}) as prepared:
        assert "--header and --bearer-env do not go to objects of a store" in prepared.notes[-1]


def test_a_login_for_another_port_is_told(in_place):
    """By each way of preparing."""
    manifest, settings = in_place
    settings = replace(settings, header=("X-Key: CANARY",), header_host=("127.0.0.1:1",))
    with prepare(str(manifest), settings, env={}) as prepared:
        assert "no file is at 127.0.0.1:1" in prepared.notes[-1]


def keys_for(prepared, *urls):
    own = prepared._context.network.credentials
    return [list(own.add_headers(SecretUrl(url), {})) for url in urls]


def test_the_only_host_is_taken_and_no_mirror(in_place):
    """Also by a plan that is run later; a mirror may be anybody's."""
    manifest, settings = in_place
    settings = Settings(to=settings.to, bearer_env="TOKEN")
    with prepare(manifest, settings, env={"TOKEN": "t"}) as prepared:
        assert keys_for(prepared, "http://nobody.test/a", "http://mirror.test/a") == [["Authorization"], []]


TOKEN = {"TOKEN": "t"}


def test_a_follower_is_told_its_hosts(tmp_path):
    """What its feed will name is not known beforehand."""
    settings = Settings(to=(str(tmp_path),), bearer_env="TOKEN")
    with pytest.raises(ConfigError, match="--header-host HOST"):
        follow("http://h.test/feed", settings, FollowOptions(), env=TOKEN, dashboard=None, emit_line=print)  # type: ignore[arg-type]


def test_spark_refuses_cookies(in_place):
    """The file is this machine's; the message says what works there."""
    manifest, settings = in_place
    cookies = Path(manifest).with_name("cookies")
    cookies.write_text(COOKIES.format(""))
    settings = Settings(to=settings.to, engine="spark", cookies=str(cookies))
    with (
        pytest.raises(ConfigError, match=r"cookies is a file of this machine.*--bearer-env"),
        prepare(manifest, settings, env={}) as prepared,
    ):
        prepared.run(print)


def test_configuration_shows_no_header(tmp_path, monkeypatch):
    """Neither a document, nor a person's view, nor what a run says of its settings."""
    monkeypatch.setenv("CFETCH_HEADER", SECRETS["CFETCH_HEADER"])
    for words in (["--show-config"], ["--show-config", "--json"]):
        ran = call("download", *words, "--header-host", "h.test")
        assert (ran.code, "h.test" in ran.out, "CANARY" in ran.said) == (0, True, False)
    assert Settings(header=("X-Key: CANARY",)).public()["header"] == "<redacted>"


async def test_a_hash_beside_a_file_is_asked_for_by_the_same_user(tmp_path):
    """The token goes to the host of the file, which is the only one."""
    async with RawServer(reply(b"0" * 64)) as server:
        settings = Settings(to=(str(tmp_path),), bearer_env="TOKEN")

        def prepare_it():
            with prepare_get([f"{server.url}a"], settings, sha256="beside", env=SECRETS) as prepared:
                return [entry.digest.hex for entry in prepared.plan.entries() if entry.digest]

        assert await asyncio.to_thread(prepare_it) == ["0" * 64]
        assert server.fields()["authorization"] == "Bearer CANARYTOKEN"


@pytest.mark.parametrize(
    "words",
    [{"header": ("CANARY",)}, {"header": ("X-Key: CANARY\n",)}, {"header_host": ("HTTPS://h.test/CANARY",)}],
)
def test_a_value_in_another_form(words):
    """The option is named, and nothing of it is quoted."""
    with pytest.raises(ConfigError, match=f"^{next(iter(words))} must be") as caught:
        Settings(**words)
    assert "CANARY" not in str(caught.value)


def test_an_odd_line_of_the_cookies_is_a_note_of_the_run(tmp_path):
    """The run goes on with the others."""
    (tmp_path / "c.txt").write_text(COOKIES.format("in") + "CANARYCOOKIE\n")
    settings = Settings(to=(str(tmp_path / "to"),), cookies=str(tmp_path / "c.txt"))
    with prepare_get(["http://127.0.0.1:9/a"], settings, env={}) as prepared:
        [note] = prepared.notes
    assert note.startswith("line 3 of the cookies in ")
