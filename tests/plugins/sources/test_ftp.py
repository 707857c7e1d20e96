"""Files of a real FTP server by the real command."""

import asyncio
import hashlib
import json
import os
from contextlib import suppress

import pytest

from cfetch.base.errors import Refused, Throttled, Transient
from cfetch.base.secret import SecretUrl
from cfetch.wire.network import DIRECT
from cfetch.wire.transport import RunTransport
from tests.cli.verbs import cfetch
from tests.plugins.sources.ftp_server import PASSWORD, USER, serve_ftp

BODY = bytes(range(256)) * 20_000  # 5 MB: more than fits into the sockets on the way
LOGIN = f"{USER}:{PASSWORD.replace('@', '%40').replace(':', '%3A')}@"


@pytest.fixture
def site(tmp_path):
    """A server with a directory of files."""
    (tmp_path / "site" / "d").mkdir(parents=True)
    (tmp_path / "site" / "d" / "a.bin").write_bytes(BODY)
    (tmp_path / "site" / "d" / "b c.txt").write_bytes(b"b")
    (tmp_path / "site" / "empty").write_bytes(b"")
    with serve_ftp(tmp_path / "site") as served:
        yield served


async def download(tmp_path, *files, words=(), version=1):
    """The summary of a download of these rows, and what the command says."""
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"version": version, "files": files}))
    return await cfetch("download", manifest, "--to", tmp_path / "to", "--json", *words)


async def read_all(reply):
    """The bytes of a reply."""
    pieces = []
    while data := await reply.read():
        pieces.append(data)
    return b"".join(pieces)


async def test_files_of_a_list_come_over_connections_that_are_kept(site, tmp_path):
    """By size alone, with any name, also empty ones; relative URLs stand below the list's own directory."""
    (tmp_path / "site" / "list.txt").write_text("d/a.bin\nd/b%20c.txt\nempty\n")
    ended = await cfetch("download", site.url("list.txt"), "--to", tmp_path / "to", "--concurrency", "1")
    assert ended.code == 0, ended.err
    assert (tmp_path / "to" / "d" / "a.bin").read_bytes() == BODY
    assert [(tmp_path / "to" / name).read_bytes() for name in ("d/b c.txt", "empty")] == [b"b", b""]
    assert site.connections == 2  # one for the list, one for all files


async def test_a_cut_transfer_goes_on_where_it_ended(site, tmp_path):
    """By REST, as size and time tell that the file is the same; and the hash of the whole is right."""
    site.cuts = [1_500_000, 1_000_000]
    digest = hashlib.sha256(BODY).hexdigest()
    ended = await download(tmp_path, {"url": site.url("d/a.bin"), "size": len(BODY)})
    assert ended.code == 0, ended.err
    assert hashlib.sha256((tmp_path / "to" / "a.bin").read_bytes()).hexdigest() == digest
    assert site.log.count("REST") >= 2
    assert ended.summary["bytes"]["fetched"] < len(BODY) + 600_000


async def test_a_file_that_changed_between_two_tries_begins_anew(site, tmp_path):
    """Its time is another one, so no bytes of two versions are joined."""
    path = tmp_path / "site" / "d" / "a.bin"
    site.cuts = [2_000_000]
    transport = RunTransport(connect_timeout_s=5.0, network=DIRECT)
    url = SecretUrl(site.url("d/a.bin"))
    first = await transport.open(url, {}, {}, fresh=False)
    (etag,) = first.headers.getall("ETag", [])
    with pytest.raises(Transient):
        await read_all(first)
    first.close()
    os.utime(path, (1e9, 1e9))
    again = await transport.open(url, {"Range": "bytes=9-", "If-Range": etag}, {}, fresh=False)
    again.close()
    await transport.close()
    assert again.status == 200


async def test_a_file_in_place_is_not_fetched_again(site, tmp_path):
    """The second run asks for size and time only."""
    row = {"url": site.url("d/a.bin")}
    await download(tmp_path, row)
    site.log.clear()
    ended = await download(tmp_path, row, words=["--existing", "check"])
    assert (ended.code, "RETR" in site.log, ended.summary["files"]["skipped"]) == (0, False, 1), ended.err


async def test_a_wrong_size_is_refused_before_a_byte(site, tmp_path):
    """The manifest's size counts, and the message has both."""
    ended = await download(tmp_path, {"url": site.url("d/a.bin"), "size": 7})
    assert ended.code == 1
    assert f"the server has {len(BODY)} bytes where the manifest says 7" in ended.err
    assert not (tmp_path / "to" / "a.bin").exists()


async def test_an_absent_file_fails_at_once_with_the_servers_reason(site, tmp_path):
    """550 is for good: it is asked for once, and the file beside it comes."""
    ended = await download(tmp_path, {"url": site.url("gone.bin")}, {"url": site.url("d/a.bin")})
    assert (ended.code, site.log.count("SIZE")) == (1, 2)
    assert "FTP 550" in ended.err
    assert (tmp_path / "to" / "a.bin").read_bytes() == BODY


async def test_a_login_is_used_and_never_shown(site, tmp_path):
    """It stands in the URL, or in netrc; a wrong one is refused for good, and no message has it."""
    ended = await download(tmp_path, {"url": site.url("d/a.bin", LOGIN)})
    assert ended.code == 0, ended.err
    wrong = await download(tmp_path, {"url": site.url("d/b%20c.txt", f"{USER}:CANARY@")})
    assert (wrong.code, "refuses the login" in wrong.err) == (1, True), wrong.err
    shown = ended.out + ended.err + wrong.out + wrong.err
    metrics = "".join(path.read_text() for path in tmp_path.glob("to/.cfetch/metrics/*"))
    assert not [word for word in ("CANARY", PASSWORD, LOGIN) if word in shown + metrics]


async def test_a_login_of_netrc(site, tmp_path, monkeypatch):
    """As for http, the user's file is read if --netrc says so."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    site.log.clear()
    ended = await download(tmp_path, {"url": site.url("d/b%20c.txt")}, words=["--netrc"])
    assert ended.code == 0, ended.err
    netrc.write_text(f"machine 127.0.0.1 login {USER} password CANARY\n")
    wrong = await download(tmp_path, {"url": site.url("d/a.bin")}, words=["--netrc"])
    assert (wrong.code, "CANARY" in wrong.err) == (1, False)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("450 It is busy.", Transient),
        ("425 No data connection.", Transient),
        ("421 Too many.", Throttled),
        ("550 No such file.", Refused),
        ("553 No.", Refused),
    ],
)
async def test_what_answers_mean(site, answer, error):
    """4xx may be over soon, 5xx is for good; the server's own words are quoted."""
    site.refusal = answer
    transport = RunTransport(connect_timeout_s=5.0, network=DIRECT)
    with pytest.raises(error, match=answer.replace(" ", ": ", 1).replace(".", r"\.")) as caught:
        await transport.open(SecretUrl(site.url("d/a.bin")), {}, {}, fresh=False)
    await transport.close()
    assert type(caught.value) is error


async def test_a_server_without_size_and_time(site, tmp_path):
    """The file comes whole, and its end counts only when the server says that all was sent."""
    site.unknown = {"SIZE", "MDTM"}
    ended = await download(tmp_path, {"url": site.url("d/a.bin")})
    assert ended.code == 0, ended.err
    assert (tmp_path / "to" / "a.bin").read_bytes() == BODY


@pytest.mark.parametrize("path", ["d/", "", "a%0D%0ADELE%20b"])
async def test_paths_that_are_not_sent(site, path):
    """A directory is no file, and a line break would begin another command."""
    transport = RunTransport(connect_timeout_s=5.0, network=DIRECT)
    with pytest.raises(Refused):
        await transport.open(SecretUrl(site.url(path)), {}, {}, fresh=False)
    await transport.close()
    assert "DELE" not in site.log


async def test_an_answer_that_does_not_end():
    """It is given up after some lines, and fills no memory."""

    async def talk(_, writer):
        writer.write(b"220-welcome\r\n" * 5000)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = RunTransport(connect_timeout_s=20.0, network=DIRECT)
        with pytest.raises(Refused, match="more than 1000 lines"):
            await transport.open(SecretUrl(f"ftp://127.0.0.1:{port}/a"), {}, {}, fresh=False)
        await transport.close()


async def test_a_file_is_named_by_its_path(site, tmp_path):
    """No header could state another name, so that --name-by header asks nobody."""
    ended = await download(tmp_path, {"url": site.url("d/b%20c.txt")}, words=["--name-by", "header"])
    assert ended.code == 0, ended.err
    assert (tmp_path / "to" / "b c.txt").read_bytes() == b"b"


async def test_a_server_that_has_gone():
    """No connection is made, and another try may help."""
    with serve_ftp("/") as served:
        pass
    transport = RunTransport(connect_timeout_s=5.0, network=DIRECT)
    with pytest.raises(Transient, match="Connection refused"):
        await transport.open(SecretUrl(served.url("a")), {}, {}, fresh=False)
    await transport.close()
