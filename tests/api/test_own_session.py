"""A program's own session of aiohttp, and replies that are mocked by one line."""

import asyncio

import aiohttp
import pytest

import cfetch
from cfetch.testing.mocking import mock_servers
from tests.wire.raw_server import RawServer, reply


async def add_token(request, handler):
    request.headers["X-Token"] = "of-a-middleware"
    return await handler(request)


def make_session():
    return aiohttp.ClientSession(middlewares=(add_token,), headers={"User-Agent": "mine/1"})


async def test_a_download_asks_by_the_session_that_a_function_makes(tmp_path):
    """Its middlewares and headers count, in the loop of the download, and it is closed at the end."""
    made = []

    def make():
        made.append(make_session())
        return made[-1]

    async with RawServer(reply(b"data")) as server:
        path = await asyncio.to_thread(cfetch.get, f"{server.url}a", to=tmp_path, session=make)
    assert path.read_bytes() == b"data"
    assert server.fields()["x-token"] == "of-a-middleware"
    assert server.fields()["user-agent"] == "mine/1"
    assert made
    assert all(session.closed for session in made)


async def test_a_session_of_this_loop_is_used_while_the_loop_goes_on(tmp_path):
    """Its cookie jar keeps what servers set, for the program too; it stays open."""
    async with (
        RawServer(reply(b"data", "Set-Cookie: a=1")) as server,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        url = f"{server.url}a"
        await cfetch.download_async([{"url": url, "path": "d/a"}], to=tmp_path, session=session)
        assert (tmp_path / "d" / "a").read_bytes() == b"data"
        assert [cookie.key for cookie in session.cookie_jar] == ["a"]
        with pytest.raises(cfetch.UsageError, match="give a function that makes the session"):
            cfetch.get(url, to=tmp_path, session=session)
        assert not session.closed


def test_mocked_servers_answer_without_a_network(tmp_path):
    """One line mocks them; a redirect, JSON and headers are as servers send them."""
    with mock_servers() as servers:
        servers.get("https://data.test/a.csv", status=302, headers={"Location": "https://far.test/b"})
        servers.get("https://far.test/b", body=b"1,2")
        servers.get("https://data.test/c.json", payload={"d": 1})
        done = cfetch.download(["https://data.test/a.csv", "https://data.test/c.json"], to=tmp_path)
        servers.assert_called()
    assert (done.files.done, done.retries) == (2, 0)
    assert (tmp_path / "a.csv").read_bytes() == b"1,2"
    assert (tmp_path / "c.json").read_bytes() == b'{"d": 1}'


def test_a_url_that_is_not_mocked_fails_at_once_and_says_so(tmp_path):
    """Else a test would wait for tries that cannot help; and a real server is asked again afterwards."""
    with (
        mock_servers(),
        pytest.raises(cfetch.Incomplete, match=r"no reply to GET https://data\.test/x is mocked"),
    ):
        cfetch.get("https://data.test/x", to=tmp_path)


def test_mocked_servers_are_asked_by_this_process_whatever_the_settings_say(tmp_path):
    """Another process would ask the real network; a note says so."""
    notes = []
    with mock_servers() as servers:
        servers.get("https://data.test/a", body=b"1", repeat=True)
        servers.get("https://data.test/b", body=b"1", repeat=True)
        done = cfetch.download(
            ["https://data.test/a", "https://data.test/b"],
            to=tmp_path,
            settings=cfetch.Settings(processes=2),
            on_event=lambda event: notes.append(getattr(event, "note", "")),
        )
    assert done.files.done == 2
    assert any("one process and not 2" in note for note in notes)


async def test_real_servers_are_asked_again_afterwards(tmp_path):
    """What the mock has imposed ends with it."""
    with mock_servers():
        pass
    async with RawServer(reply(b"data")) as server:
        await cfetch.get_async(f"{server.url}a", to=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"data"
