"""Addresses, names, silence and a network that is down, on the wire."""

import asyncio
import errno
import os
import socket
from unittest.mock import Mock

import aiohttp
import pytest

from cfetch.base.errors import Refused, SourceError, Transient
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import run_virtual
from cfetch.manifest.entry import Entry, safe_path
from cfetch.manifest.urls import resolve_url
from cfetch.wire.connections import APART_S, AT_ONCE, UNKNOWN_NAME_S, ConnectionPool
from cfetch.wire.foreign_errors import map_error
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import Network
from tests.engine.test_pool_wire import fetched
from tests.wire.raw_server import RawServer, reply, served
from tests.wire.wire import CANARY, Names, ask


@pytest.fixture
def black_hole():
    """Makes listeners that accept nobody and whose queues are full, so that SYNs are dropped."""
    opened = []

    def make(port):
        listener = socket.socket()
        opened.append(listener)
        listener.bind(("127.0.0.2", port))
        listener.listen(0)
        for _ in range(3):
            filler = socket.socket()
            opened.append(filler)
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        return listener.getsockname()

    yield make
    for one in opened:
        one.close()


# --- addresses


async def test_c58_public_only_keeps_literals_names_and_redirects_out():
    """After resolution: what the URL says, what a name leads to, and where a redirect points."""
    words = "the address is not public, and public_only is set"
    guarded = Network(public_only=True)
    async with RawServer(reply(b"x")) as server:
        for host in ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "name.test"):
            for fresh in (False, True):
                with pytest.raises(Refused) as caught:
                    await ask(
                        f"http://{host}:{server.port}/", network=guarded, fresh=fresh,
                        resolver=Names(["127.0.0.1", "10.0.0.1", "::1"]),
                    )  # fmt: skip
                assert str(caught.value) == words
    assert server.connections == 0


async def test_c58_public_only_holds_for_redirects_and_for_names_that_change(monkeypatch):
    """The first answer is let through (a stand-in for a public one), the second is looked at again."""
    seen = []

    def only_the_first(address):
        seen.append(address)
        return address == "127.0.0.1"

    monkeypatch.setattr("cfetch.wire.targets.is_public", only_the_first)
    async with RawServer(reply(b"", "Location: http://[::1]:1/", status="302 x")) as server:
        with pytest.raises(Refused, match="not public"):
            await ask(
                f"http://a.test:{server.port}/",
                network=Network(public_only=True),
                resolver=Names(["127.0.0.1"]),
            )
        server.replies = [reply(b"x")]
        names, url = Names(["127.0.0.1"], ["127.0.0.2"]), SecretUrl(f"http://b.test:{server.port}/")
        transport = HttpTransport(connect_timeout_s=5.0, network=Network(public_only=True), resolver=names)
        (await transport.open(url, {}, {}, fresh=False)).close()
        with pytest.raises(Refused, match="not public"):
            await transport.open(url, {}, {}, fresh=True)
        await transport.close()
    assert seen == ["127.0.0.1", "::1", "127.0.0.1", "127.0.0.2"]


async def test_c58_without_the_setting_every_address_will_do():
    """Most of the world's manifests are inside a company."""
    async with RawServer(reply(b"x")) as server:
        assert await ask(server.url) == (200, b"x")


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1"])
async def test_c58_odd_spellings_of_addresses_are_refused(host):
    """The system would take them for 127.0.0.1."""
    with pytest.raises(Refused):
        await ask(f"http://{host}:1/", network=Network(public_only=True))


@pytest.fixture
async def server6():
    """The port of a server on ::1 alone, which says x."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(b"x", "Connection: close"))

    sock = socket.socket(socket.AF_INET6)
    try:
        sock.bind(("::1", 0))
    except OSError:
        sock.close()
        pytest.skip("this machine has no IPv6 loopback")
    async with served(answer, sock=sock) as port:
        yield port


async def test_c60_ipv6_literals(server6):
    """In brackets; a zone is stated in either way, and needed only for addresses of a link."""
    assert await ask(f"http://[::1]:{server6}/") == (200, b"x")
    for zone in ("%25lo", "%lo", "%259999", "%1"):
        async with RawServer(
            reply(b"", f"Location: http://[::1{zone}]:{server6}/", status="302 x")
        ) as server:
            assert await ask(server.url) == (200, b"x")
        assert resolve_url(f"http://[fe80::1{zone}]/a", lambda: None)
    with pytest.raises(Refused, match="not an address that can be connected to"):
        await ask(f"http://[fe80::1%25none]:{server6}/")


async def test_a_zone_is_no_way_around_public_only(server6):
    """The address counts, however it is written."""
    for host in ("[::1%251]", "[fe80::1%25lo]", "2130706433", "127.1", "0x7f.0.0.1", "0177.1"):
        with pytest.raises(Refused, match="not public"):
            await ask(f"http://{host}:{server6}/", public_only=True)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.0.1", "0177.0.0.1", "0x7F000001"])
async def test_an_address_in_another_spelling_is_asked_in_the_usual_one(host):
    """As browsers and curl do, in the header ``Host`` too; so a redirect to it is the same origin's."""
    async with RawServer(reply(b"x")) as server:
        assert await ask(f"http://{host}:{server.port}/a") == (200, b"x")
    assert server.fields()["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("host", ["domain..tld", ".h", "a" * 64 + ".test"])
async def test_a_host_that_no_resolver_can_look_up_does_not_exist(host):
    """Python's resolver fails over such labels in a way of its own; a stated address counts all the same."""
    with pytest.raises(Refused, match="the host's name does not exist"):
        await ask(f"http://{host}/a", resolver=aiohttp.ThreadedResolver())
    async with RawServer(reply(b"x")) as server:
        stated = (f"{host}:{server.port}:127.0.0.1",)
        assert await ask(f"http://{host}:{server.port}/a", resolve=stated) == (200, b"x")


@pytest.mark.parametrize("order", [["127.0.0.1", "::1"], ["::1", "127.0.0.1"]])
async def test_c60_one_broken_family_does_not_matter(server6, order):
    """Refused over one of them: the other is used, whichever the resolver named first."""
    assert await ask(f"http://dual.test:{server6}/", resolver=Names(order)) == (200, b"x")


async def test_c60_a_silent_family_costs_a_quarter_of_a_second(server6, black_hole):
    """A black hole in front: the other family is tried beside it, long before the time to connect is over."""
    names = Names([black_hole(server6)[0], "::1"])
    async with asyncio.timeout(60):
        found = await ask(f"http://dual.test:{server6}/", resolver=names, timeout_s=600.0)
    assert found == (200, b"x")


async def test_c60_when_all_fail_each_family_is_named():
    """With the system's words for its own fault."""
    async with RawServer() as server:
        pass
    with pytest.raises(Transient) as caught:
        await ask(f"http://dual.test:{server.port}/", resolver=Names(["::1", "127.0.0.1"]))
    assert str(caught.value) in (
        "cannot connect: IPv6: Connection refused; IPv4: Connection refused",
        "cannot connect: IPv6: Cannot assign requested address; IPv4: Connection refused",
    )


# --- names


def fails_by_name(*answers):
    """On virtual time: the error, how often the resolver was asked, and how long it took."""
    names = Names(*answers)

    async def main():
        with pytest.raises(SourceError) as caught:
            await ask(f"http://name.test/?sig={CANARY}", resolver=names)
        return caught.value, names.asked, asyncio.get_running_loop().time()

    return run_virtual(main())


@pytest.mark.parametrize("number", [socket.EAI_NONAME, socket.EAI_NODATA])
def test_c61_a_name_that_does_not_exist_is_asked_for_once_more_then_refused(number):
    """Once: a resolver that is just coming up says the same of every name."""
    error, asked, elapsed_s = fails_by_name(number)
    assert isinstance(error, Refused)
    assert (asked, elapsed_s) == (2, UNKNOWN_NAME_S)
    assert str(error) == "the host's name does not exist (asked for twice); check how it is spelled"


@pytest.mark.parametrize("number", [socket.EAI_NONAME, socket.EAI_AGAIN])
def test_a_proxy_that_is_not_used_is_named_where_a_host_is_not_reached(number, monkeypatch):
    """In a network whose resolver knows no outside names, nobody has misspelled them; its URL is not told."""
    monkeypatch.setenv("no_proxy", "*")
    assert "proxy" not in str(fails_by_name(number)[0])
    monkeypatch.setenv("https_proxy", f"user:{CANARY}@proxy.test")
    error = str(fails_by_name(number)[0])
    assert error.endswith(" (asked without the proxy of https_proxy; see --proxy-from-env and NO_PROXY)")


@pytest.mark.parametrize("number", [socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM])
def test_c61_a_resolver_in_trouble_is_asked_again_later(number):
    """SERVFAIL and its time-out: the pool's back-off, not ours."""
    error, asked, _ = fails_by_name(number)
    assert isinstance(error, Transient)
    assert (asked, str(error)) == (1, "the host's name could not be resolved")


def test_c61_an_answer_without_addresses_is_a_name_that_does_not_exist():
    """Aiohttp alone fails an assertion on it."""
    error, asked, _ = fails_by_name([])
    assert isinstance(error, Refused)
    assert asked == 2


def test_c61_a_resolver_that_never_answers_ends_with_the_time_to_connect():
    """Looking a name up is part of connecting."""
    error, asked, elapsed_s = fails_by_name(None)
    assert isinstance(error, Transient)
    assert (asked, str(error)) == (1, "connecting took too long")
    assert 5.0 <= elapsed_s <= 6.0  # aiohttp rounds up to whole seconds


async def test_c61_a_name_that_exists_at_the_second_look():
    """It is as if nothing had been."""
    async with RawServer(reply(b"x")) as server:
        names = Names(socket.EAI_NONAME, ["127.0.0.1"])
        assert await ask(f"http://name.test:{server.port}/", resolver=names) == (200, b"x")


# --- black holes, drips, a network that is down


async def test_c34_a_black_hole_is_left_when_the_time_to_connect_is_over(black_hole):
    """SYNs that nobody answers, on both lanes."""
    host, port = black_hole(0)
    for fresh in (False, True):
        with pytest.raises(Transient) as caught:
            await ask(f"http://{host}:{port}/", timeout_s=0.2, fresh=fresh)
        assert str(caught.value) == "connecting took too long"


async def test_c34_a_name_with_a_black_hole_in_front_works(black_hole):
    """Of two addresses of one family the second is tried beside the first."""
    async with RawServer(reply(b"x")) as server:
        host, port = black_hole(server.port)
        async with asyncio.timeout(60):
            found = await ask(
                f"http://two.test:{port}/", resolver=Names([host, "127.0.0.1"]), timeout_s=600.0
            )
    assert found == (200, b"x")


@pytest.mark.parametrize("drip", [
    b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 4000,
    b"HTTP/1.1 100 Continue\r\n\r\n" * 400,
], ids=["a header", "interim replies"])  # fmt: skip
async def test_c37_headers_that_drip_do_not_evade_the_deadline(tmp_path, drip):
    """From request to first byte of body there is one deadline, however often something trickles in."""
    connections = 0

    async def serve(reader, writer):
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if connections > 1:
            writer.write(reply(b"whole"))
        else:
            for byte in drip:
                if writer.is_closing():
                    break
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)

    async with served(serve) as port, asyncio.timeout(60):
        url = SecretUrl(f"http://127.0.0.1:{port}/")
        entry = Entry(id=0, path=safe_path("a"), url=url, size_bytes=5)
        records, _ = await fetched(tmp_path, [entry], stall_timeout=0.3, check_interval=0.05)
    assert [a.outcome for a in records["a"].attempts] == ["stalled", "done"]
    assert (tmp_path / "a").read_bytes() == b"whole"


@pytest.mark.parametrize("number", [
    errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN,
    errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ECONNRESET,
])  # fmt: skip
def test_c64_a_network_that_is_down_may_be_back(number):
    """Each way in which the system says so is tried again, in the system's words."""
    key = Mock(host=CANARY, port=1, ssl=None)
    for error in (
        aiohttp.ClientConnectorError(key, OSError(number, CANARY)),
        aiohttp.ClientProxyConnectionError(key, OSError(number, CANARY)),
        aiohttp.ClientOSError(number, CANARY),
    ):
        ours = map_error(error)
        assert isinstance(ours, Transient)
        assert str(ours).partition(";")[0].endswith(f": {os.strerror(number)}")  # advice follows
        assert CANARY not in str(ours)


async def test_c64_down_and_back():
    """What fails while nobody listens works again over the same transport."""
    held = socket.socket()  # bound but not listening: refused, and nobody else can have the port
    held.bind(("127.0.0.1", 0))
    url = SecretUrl(f"http://127.0.0.1:{held.getsockname()[1]}/")
    transport = HttpTransport(connect_timeout_s=5.0)
    with pytest.raises(Transient, match="cannot connect: Connection refused"):
        await transport.open(url, {}, {}, fresh=False)

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(b"x"))
        await reader.read(-1)

    async with served(serve, sock=held):
        assert await (await transport.open(url, {}, {}, fresh=False)).read() == b"x"
        await transport.close()


@pytest.mark.parametrize(("text", "words"), [
    ("[Errno 101] Network is unreachable, [Errno 111] Connect call failed ('192.0.2.1', 80)",
     "IPv6: Network is unreachable; IPv4: Connection refused"),
    (("[Errno 111] Connect call failed ('::1', 80, 0, 0), [Errno 113] Connect call failed ('192.0.2.1', 80), "
      "[Errno 110] Connect call failed ('192.0.2.2', 80)"),
     "IPv6: Connection refused; IPv4: No route to host, Connection timed out"),
    (f"[Errno 101] {CANARY}, [Errno 111] {CANARY}",
     "another address: Network is unreachable, Connection refused"),
])  # fmt: skip
def test_c60_several_failures_in_our_words(text, words):
    """Numbers and kinds of address are all that is taken from a foreign text."""
    foreign = OSError(f"Multiple exceptions: {text}")
    ours = map_error(aiohttp.ClientConnectorError(Mock(host=CANARY, port=1, ssl=None), foreign))
    assert str(ours) == f"cannot connect: {words}"


def test_first_connections_to_a_server_begin_one_after_the_other():
    """A few at once and then one in a millisecond; another server's do not wait for them."""

    async def begin() -> tuple[list[float], float]:
        loop, begun_s = asyncio.get_running_loop(), []
        pool = ConnectionPool(Network(), Mock(), connect_timeout_s=1.0, idle_s=1.0)

        async def connect(*_):
            begun_s.append(loop.time())
            raise TimeoutError

        pool._connector = Mock(connect=connect)
        start_s = loop.time()
        asks = [pool.connect("http://a.test", Mock(), looks_up=False) for _ in range(16)]
        await asyncio.gather(*asks, return_exceptions=True)
        asks = [pool.connect("http://b.test", Mock(), looks_up=False)]
        then_s = loop.time()
        await asyncio.gather(*asks, return_exceptions=True)
        return [at_s - start_s for at_s in begun_s[:-1]], begun_s[-1] - then_s

    first, other_s = run_virtual(begin())
    assert first == pytest.approx([0.0] * AT_ONCE + [APART_S * n for n in range(1, 17 - AT_ONCE)])
    assert other_s == pytest.approx(0.0)
