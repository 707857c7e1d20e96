"""``--resolve``: the user's own addresses for hosts; and limits of heads, which are named."""

import asyncio
from typing import Any, cast

import pytest

from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.errors import ConfigError, Refused
from cfetch.base.secret import SecretUrl
from cfetch.manifest.url_completion import join_url
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import make_network
from cfetch.wire.tcp_figures import read_tcp_figures
from cfetch.wire.transport import RunTransport
from tests.wire.raw_server import RawServer, reply
from tests.wire.wire import Names, ask


async def test_a_host_is_connected_to_at_the_address_that_the_user_gives():
    """For its port only; the resolver is not asked, and the request names the host."""
    names = Names("192.0.2.1")
    async with RawServer(reply(b"x")) as server:
        url = f"http://Mirror.test:{server.port}/a"
        address = f"mirror.test:{server.port}:127.0.0.1"
        assert await ask(url, resolver=names, resolve=(address,)) == (200, b"x")
        assert names.asked == 0
        assert server.fields()["host"] == f"Mirror.test:{server.port}"


@pytest.mark.parametrize(
    ("host", "resolve"),
    [("h.test.", "h.test.:{}:127.0.0.1"), ("any.test", "*:{}:127.0.0.1"), ("mirror.localhost", None)],
)
async def test_hosts_whose_addresses_are_known_without_a_resolver(host, resolve):
    """A final dot is no part of a name, ``*`` is each host, and what is below localhost is this machine."""
    names = Names("192.0.2.1")
    async with RawServer(reply(b"x")) as server:
        stated = {} if resolve is None else {"resolve": (resolve.format(server.port),)}
        assert await ask(f"http://{host}:{server.port}/a", resolver=names, **stated) == (200, b"x")
    assert names.asked == 0


async def test_an_address_without_an_answer_is_tried_last_from_then_on():
    """Also after it is back, as long as the others answer."""
    async with RawServer(reply(b"x")) as server:
        stated = tuple(f"h.test:{server.port}:127.0.0.{last}" for last in (2, 1))
        network = make_network(Settings(resolve=stated).network, {})
        transport = HttpTransport(connect_timeout_s=5.0, network=network)
        url = SecretUrl(f"http://h.test:{server.port}/")

        async def ask_anew():
            response = await transport.open(url, {}, {}, fresh=True)
            while await response.read():
                pass

        await ask_anew()
        connections = []

        def answer(_, writer):
            connections.append(writer)
            writer.write(reply(b"x"))

        async with await asyncio.start_server(answer, "127.0.0.2", server.port):
            for _ in range(4):
                await ask_anew()
            assert connections == []
        await transport.close()


async def test_addresses_that_another_connection_clears_are_looked_up_again():
    """Six wait for one look-up; when it ends, another one clears the cache before they have read it.

    Each look-up serves one of them, so the last one asks five times.
    """
    pools: list[Any] = []

    class Clearing(Names):
        async def resolve(self, *values, **named):
            await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_soon(pools[0]._connector.clear_dns_cache)
            return await super().resolve(*values, **named)

    async with RawServer(*[reply(b"x")] * 6) as server:
        network = make_network(Settings().network, {})
        transport = HttpTransport(connect_timeout_s=5.0, network=network, resolver=Clearing("127.0.0.1"))
        pools.append(transport._pool)
        url = SecretUrl(f"http://h.test:{server.port}/")
        opens = [transport.open(url, {}, {}, fresh=True) for _ in range(6)]
        first, *others = await asyncio.gather(*opens)
        assert {first.status, *(other.status for other in others)} == {200}
        figures = read_tcp_figures(cast("Any", first).transport)
        assert figures is None or (figures.round_trip_s < 1.0 and not figures.has_lost)
        assert figures is None or 0.0 <= figures.packet_age_s < 60.0
        await transport.close()
    assert read_tcp_figures(None) is None


def test_addresses_after_commas_are_those_of_one_host():
    """In an option, and in one text for several hosts; their order is kept, in brackets or not."""
    texts = "h.test:443:192.0.2.1,[2001:db8::1],2606:4700:4700::1111, *:80:192.0.2.2"
    stated = KINDS["resolve"].parse(texts)
    assert stated == ("h.test:443:192.0.2.1,[2001:db8::1],2606:4700:4700::1111", "*:80:192.0.2.2")
    assert make_network(Settings(resolve=stated).network, {}).resolve == {
        ("h.test", 443): ["192.0.2.1", "2001:db8::1", "2606:4700:4700::1111"],
        ("*", 80): ["192.0.2.2"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "h.test",
        "h.test:80",
        "h.test:0:127.0.0.1",
        "h.test:80:name",
        "h:99999:::1",
        "h:80:127.0.0.1,",
        "h:80:[::1",
        "127.0.0.1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_at_the_start(text):
    """With an example of the form."""
    with pytest.raises(ConfigError, match=r"like h\.test:443:192\.0\.2\.1"):
        Settings(resolve=(text,))


@pytest.mark.parametrize(("fields", "words"), [
    (["X: " + "y" * 103_000], "longer than 102400 bytes, cfetch's limit"),
    (["X: y"] * 1001, "the reply has more than 1000 headers, cfetch's limit"),
])  # fmt: skip
async def test_a_head_beyond_a_limit_is_refused_for_good(fields, words):
    """Another try would bring the same."""
    async with RawServer(reply(b"xyz", *fields)) as server:
        with pytest.raises(Refused, match=words):
            await ask(server.url)


@pytest.mark.parametrize("fields", [["X: " + "y" * 103_000], ["X: y"] * 1001])
@pytest.mark.parametrize("transport", ["lean", "session"])
async def test_a_larger_head_is_taken_where_the_user_permits_it(transport, fields):
    """The refusal names the option, in both transports."""
    async with RawServer(reply(b"xyz", *fields)) as server:
        with pytest.raises(Refused, match="--max-head-size permits a larger head"):
            await answer(server.url, transport=transport)
        assert len(server.heads) == 1
        larger = {"transport": transport, "max_head_size": 1 << 20}
        assert await answer(server.url, **larger) == (200, b"xyz")


async def answer(url, **settings):
    transport = RunTransport(connect_timeout_s=5.0, network=make_network(Settings(**settings).network, {}))
    try:
        response = await transport.open(SecretUrl(url), {}, {}, fresh=False)
        return response.status, bytes(await response.read())
    finally:
        await transport.close()


@pytest.mark.parametrize(("base", "text", "url"), [
    ("http://a/b/c", "http://h/x/../y/./z", "http://h/y/z"), ("http://a/b/c", "/x/./../y?q=/../z", "http://a/y?q=/../z"),
    ("http://a/b/c/d", "../g", "http://a/b/g"), ("http://a/b/c", "http://h/../../x", "http://h/x"),
    ("http://a/b/c", "http://h/x/..", "http://h/"), ("http://a/b/c", "http://h/.well-known/x", "http://h/.well-known/x"),
    ("http://a/b/c", "http://h/x//../y", "http://h/x/y"), ("http://a/b/c", "http://h/x/.", "http://h/x/"),
])  # fmt: skip
def test_dot_segments_of_links_are_removed(base, text, url):
    """As RFC 3986, 5.2.2 says, also in absolute links; a name that begins with a dot is none."""
    assert join_url(base, text) == url
