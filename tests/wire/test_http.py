"""The adapter to aiohttp on the wire: requests as written, hostile replies, redirects, errors."""

import asyncio
import contextlib
import errno
import inspect
import itertools
import os
import socket
import ssl
import sys
from unittest.mock import Mock

import aiohappyeyeballs
import aiohttp
import pytest
import trustme
from aiohttp import client_exceptions, http_exceptions

from cfetch.base.errors import LocalFault, Refused, SourceError, Transient
from cfetch.base.secret import SecretUrl
from cfetch.wire.exchange import Exchange
from cfetch.wire.foreign_errors import map_error
from cfetch.wire.http import HttpTransport
from cfetch.wire.transport import Connecting
from tests.wire.raw_server import RawServer, RecordingServer, reply, served

CANARY = "CANARY0123456789"


@pytest.fixture
async def transport():
    made = HttpTransport(connect_timeout_s=5.0)
    yield made
    await made.close()


async def get(transport, url, headers=(), secrets=(), *, fresh=False):
    """A whole exchange: the response, and the body or the error that ended it."""
    response = await transport.open(SecretUrl(url), dict(headers), dict(secrets), fresh=fresh)
    body = b""
    try:
        while data := await response.read():
            body += data
    except SourceError as error:
        response.close()
        return response, body, error
    return response, body, None


@pytest.mark.parametrize("target", [
    "a?X-Amz-Credential=x%2F2026%2Fs3&t=2026-01-01T00%3A00%3A00Z&s=a+b%2Bc==", "a%2Fb/%7Ec/~d/%c3%a9",
    "a/../b/./c",
    "a//b", "a?q=[]|{}^`", "a?x=1&x=2&&=", "a;b=1,c=2?d;e", "%25%2525", "a?u=http://h/p?z", "a:b@c",
])  # fmt: skip
@pytest.mark.parametrize("fresh", [False, True])
async def test_urls_are_sent_exactly_as_written(transport, target, fresh):
    """Quoting again, decoding or tidying would break a signature."""
    async with RawServer(reply(b"x")) as server:
        await get(transport, server.url + target, fresh=fresh)
    assert server.line() == f"GET /{target} HTTP/1.1"


async def test_the_request_says_no_more_than_needed(transport):
    """Identity encoding, our name, no referer; the entry's headers unchanged."""
    async with RawServer(reply(b"x")) as server:
        await get(transport, server.url, {"Range": "bytes=5-"}, {"X-Key": "Sp ace"})
    fields = server.fields()
    assert fields["accept-encoding"] == "identity"
    assert fields["user-agent"].startswith("cfetch/")
    assert (fields["range"], fields["x-key"]) == ("bytes=5-", "Sp ace")
    assert fields.keys() == {"host", "accept", "accept-encoding", "user-agent", "range", "x-key"}


async def test_pooled_connections_are_used_again_and_fresh_ones_are_new(transport):
    """A fresh one never comes from the pool."""
    async with RawServer(reply(b"x")) as server:
        seen = []
        for fresh in (False, False, True, True, False):
            await get(transport, server.url, fresh=fresh)
            seen.append(server.connections)
    assert seen == [1, 1, 2, 3, 3]


async def test_a_fresh_connection_is_used_again_once_it_is_proven(transport):
    """A reply that came to its end puts it into the pool; one that was broken off closes it."""
    async with RawServer(reply(b"x" * 999_999)) as server:
        await get(transport, server.url, fresh=True)
        await get(transport, server.url)
        assert server.connections == 1
        (await transport.open(SecretUrl(server.url), {}, {}, fresh=True)).close()
        await get(transport, server.url)
        await get(transport, server.url)
    assert server.connections == 2


async def test_closing_breaks_the_connection_off(transport):
    """50: what was closed half-way is not met again."""
    async with RawServer(reply(b"x" * 999_999)) as server:
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        response.close()
        await get(transport, server.url)
    assert server.connections == 2


async def test_what_is_buffered_can_be_taken_without_waiting(transport):
    """For the salvage of a cancelled attempt; at the end there is nothing, and no error."""
    async with RawServer(reply(b"x" * 100, "Content-Length: 1000", length=False)) as server:
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        found = b""
        while len(found) < 100:
            found += response.read_buffered()
            await asyncio.sleep(0.001)
        assert found == b"x" * 100
        waiting = asyncio.create_task(response.read())
        await asyncio.sleep(0)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert response.read_buffered() == b""
        response.close()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(("number", "data", "then"), [
    ("1 short body", OK + b"Content-Length: 10\r\n\r\nabc", "close"),
    ("4 reset with length", OK + b"Content-Length: 10\r\n\r\nabc", "reset"),
    ("6 chunks end early", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "close"),
    ("6 reset within chunks", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "reset"),
    ("7 chunk size is no number", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", "keep"),
    ("7 chunk size is huge", OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\nabc", "keep"),
    ("10 negative length", OK + b"Content-Length: -3\r\n\r\nabc", "keep"),
    ("10 overflowing length", OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nabc", "keep"),
    ("30 endless header", OK + b"X-A: " + b"a" * 110_000 + b"\r\n\r\n", "keep"),
    ("31 endless headers", OK + b"".join(b"X-%d: a\r\n" % i for i in range(50_000)) + b"\r\n", "keep"),
    ("51 HTTP/0.9", b"hello", "close"),
    ("52 NUL in a header", OK + b"X-A: a\0b\r\nContent-Length: 0\r\n\r\n", "keep"),
    ("52 header without colon", OK + b"X-A\r\nContent-Length: 0\r\n\r\n", "keep"),
    ("nothing at all", b"", "close"),
    ("nothing but a reset", b"", "reset"),
    ("status is no number", b"HTTP/1.1 OK\r\n\r\n", "keep"),
])  # fmt: skip
async def test_broken_replies_are_our_errors(transport, number, data, then):
    """Whatever the bytes: an error of ours with neither URL nor foreign text, transient where it may be."""
    async with RawServer(data, then=then) as server:
        try:
            _, body, error = await get(transport, f"{server.url}a?sig={CANARY}", secrets={"X-Key": CANARY})
        except SourceError as raised:
            body, error = b"", raised
    is_same_again = number in ("30 endless header", "31 endless headers")
    assert isinstance(error, Refused if is_same_again else Transient), number
    assert CANARY not in repr(error) + str(error.__cause__)
    assert error.__suppress_context__
    assert body in (b"", b"abc")


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


class LateServer(RawServer):
    """Sends a reply in two parts: the second when the reader has taken the first."""

    async def answer(self, writer, reply):
        self.taken = asyncio.Event()
        await super().answer(writer, reply[0])
        await self.taken.wait()
        return await super().answer(writer, reply[1])


@pytest.mark.parametrize("most", [-1, 100], ids=["unlimited", "limited"])
@pytest.mark.parametrize("then", ["keep", "close"])
@pytest.mark.parametrize("end", [
    b"zz\r\n", b"-5\r\nhello\r\n", b"f" * 40 + b"\r\n", b"0\r\nno colon\r\n\r\n",
    b"0\r\n\0: x\r\n\r\n",
])  # fmt: skip
async def test_7_a_malformed_end_wakes_the_reader_at_once(transport, end, then, most):
    """It would wait for ever if only the connection were closed; what came before is had."""
    async with LateServer((CHUNKED, end), then=then) as server:
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        assert await response.read(most) == b"abc"
        server.taken.set()
        async with asyncio.timeout(60):
            with pytest.raises(Transient, match="the body is not proper HTTP"):
                await response.read(most)
        response.close()


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, AssertionError, ValueError])
async def test_an_error_that_nobody_foresaw_is_one_attempts_failure(transport, monkeypatch, kind):
    """While a body is read, whatever goes wrong may pass at the next attempt."""
    monkeypatch.setattr(Exchange, "on_body", Mock(side_effect=kind(CANARY)))
    async with RawServer(reply(b"x" * 10)) as server:
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        with pytest.raises(Transient) as caught:
            await response.read(10)
    assert CANARY not in str(caught.value)


async def test_11_bytes_after_the_body_do_not_reach_the_next_request(transport):
    """A second reply that nobody asked for is thrown away with its connection."""
    smuggled = reply(b"good") + reply(b"evil")
    async with RawServer(smuggled, reply(b"fine")) as server:
        with contextlib.suppress(SourceError):
            _, first, _ = await get(transport, server.url)
            assert first == b"good"
        _, second, error = await get(transport, server.url)
    assert (second, error) == (b"fine", None)
    assert server.connections == 2


async def test_11_a_reply_that_came_before_its_question_is_nobodys_answer(transport):
    """It waits on an idle connection; taken for the next answer it would shift every file by one."""
    async with RawServer(reply(b"first"), reply(b"second"), reply(b"third")) as server:
        assert (await get(transport, server.url))[1] == b"first"
        writer = server.writers[0]
        writer.write(reply(b"stray"))
        await writer.drain()
        await asyncio.sleep(0.05)
        assert (await get(transport, server.url))[1] == b"second"
    assert server.connections == 2


async def test_5_a_reset_does_not_end_a_body_without_length(transport):
    """Only a connection that is closed in good order does; what came before is had."""
    async with RawServer(OK + b"\r\nhalf of it", then="reset") as server:
        response, body, error = await get(transport, server.url)
    assert body == b"half of it"
    assert isinstance(error, Transient)
    assert "Content-Length" not in response.headers


async def test_53_controls_in_header_values_arrive_and_must_not_be_shown():
    """The library lets escapes through, so our messages never quote headers."""
    made = HttpTransport(connect_timeout_s=5.0)
    async with RawServer(reply(b"x", "X-A: \x1b[31mred")) as server:
        response, _, _ = await get(made, server.url)
    await made.close()
    assert "\x1b" in response.headers["X-A"]


async def test_26_encoded_bodies_are_not_decoded(transport):
    """The bytes come as they are; the judge refuses them."""
    async with RawServer(reply(b"\x1f\x8bnot gzip", "Content-Encoding: gzip")) as server:
        response, body, _ = await get(transport, server.url)
    assert body == b"\x1f\x8bnot gzip"
    assert response.headers["Content-Encoding"] == "gzip"


async def test_the_peer_is_named(transport):
    """By the address and port that answered, for the metrics."""
    async with RawServer(reply(b"x")) as server:
        response, _, _ = await get(transport, server.url)
        assert response.peer == f"127.0.0.1:{server.port}"


async def test_a_long_header_is_read(transport):
    """Fifteen KiB: policies and signatures of clouds are long."""
    long = "x" * 15_000
    async with RawServer(reply(b"x", f"X-Long: {long}")) as server:
        response, _, _ = await get(transport, server.url)
    assert response.headers.getall("X-Long", []) == [long]


async def test_51_http_1_0_is_understood(transport):
    """With a length, and without keep-alive."""
    async with RawServer(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", then="close") as server:
        assert (await get(transport, server.url))[1:] == (b"abc", None)


@pytest.mark.parametrize("status", ["301 x", "302 x", "303 x", "307 x", "308 x"])
async def test_57_a_redirect_to_another_origin_drops_the_headers(transport, status):
    """Only the range goes along; the same origin keeps its headers."""
    async with RawServer(reply(b"x")) as target:
        moves = [
            reply(b"", "Location: /two?s=%3A", status=status),
            reply(b"", f"Location: {target.url}y?t=%2F+", status=status),
        ]
        async with RawServer(*moves) as start:
            _, body, _ = await get(
                transport,
                start.url,
                {"Range": "bytes=0-"},
                {"Authorization": CANARY, "Cookie": CANARY, "X-Key": CANARY},
            )
    assert body == b"x"
    assert start.line(1) == "GET /two?s=%3A HTTP/1.1"
    assert start.fields(1)["authorization"] == CANARY
    assert target.line() == "GET /y?t=%2F+ HTTP/1.1"
    assert CANARY not in target.heads[0]
    assert target.fields()["range"] == "bytes=0-"
    assert "referer" not in target.fields()


class Upgrading(RecordingServer):
    """Sends a plain request on to the same host and port under https, and answers there."""

    def __init__(self, context):
        super().__init__()
        self.context = context

    async def converse(self, reader, writer):
        if self.heads:
            await writer.start_tls(self.context)
        await self.read_head(reader)
        url = f"https://127.0.0.1:{self.port}/"
        writer.write(reply(b"x") if len(self.heads) > 1 else reply(b"", f"Location: {url}", status="302 x"))


async def test_57_an_origin_has_a_scheme_too(transport, authority):
    """The same host under https is another origin (RFC 6454 5): it gets no headers."""
    async with Upgrading(serving(authority, "127.0.0.1")) as server:
        _, body, _ = await get(transport, server.url, secrets={"X-Key": CANARY})
    assert body == b"x"
    assert CANARY in server.heads[0]
    assert CANARY not in server.heads[1]


async def test_57_headers_that_were_dropped_do_not_come_back(transport):
    """A redirect away and back again is still a stranger's."""
    async with RawServer() as away, RawServer() as start:
        start.replies = [reply(b"", f"Location: {away.url}", status="302 x"), reply(b"x")]
        away.replies = [reply(b"", f"Location: {start.url}back", status="302 x")]
        await get(transport, start.url, secrets={"X-Key": CANARY})
        assert CANARY in start.heads[0]
        assert CANARY not in away.heads[0] + start.heads[1]


async def test_the_body_of_a_redirect_is_not_waited_for(transport):
    """Its connection is broken off, not left open until somebody collects it."""
    move = reply(b"", "Location: /y", "Content-Length: 9999", status="302 x", length=False)
    async with RawServer(move, reply(b"x")) as server, asyncio.timeout(60):
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        while server.ended < 1:
            await asyncio.sleep(0.005)
        assert await response.read() == b"x"


async def test_54_a_redirect_loop_ends(transport):
    """Refused, with every connection given back."""
    async with RawServer(
        reply(b"", "Location: /a", status="302 x"), reply(b"", "Location: /", status="302 x")
    ) as server:
        with pytest.raises(Refused, match="circle"):
            await get(transport, server.url)
    assert len(server.heads) == 6


async def test_a_portal_that_leads_back_to_the_file_is_followed(transport):
    """The first visit to the file tells it something, such as a login; the second one gets the bytes."""
    async with RawServer(
        reply(b"", "Location: /", status="302 x"), reply(b"x", "Content-Length: 1")
    ) as server:
        assert (await get(transport, server.url))[1] == b"x"
    assert len(server.heads) == 2


@pytest.fixture
def authority(monkeypatch):
    """A CA that this process trusts while the test runs."""
    made = trustme.CA()
    trusting = ssl.create_default_context()
    made.configure_trust(trusting)
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
    return made


def serving(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_62_tls_with_a_good_certificate(transport, authority):
    """The control for the tests below."""
    async with RawServer(reply(b"x"), ssl=serving(authority, "127.0.0.1")) as server:
        assert (await get(transport, server.url))[1] == b"x"


@pytest.mark.parametrize("case", ["wrong host", "unknown authority"])
async def test_62_certificate_errors_are_permanent(transport, authority, case):
    """Never downgraded, never repeated, and not one byte of a request is sent."""
    issuer = authority if case == "wrong host" else trustme.CA()
    name = "other.test" if case == "wrong host" else "127.0.0.1"
    async with RawServer(reply(b"x"), ssl=serving(issuer, name)) as server:
        with pytest.raises(Refused, match="certificate is not accepted"):
            await get(transport, f"{server.url}?sig={CANARY}")
    assert server.heads == []


async def test_62_a_failed_handshake_may_work_next_time(transport):
    """A plain server where TLS was expected: an overloaded one looks the same."""

    async def talk(_, writer):
        writer.write(b"220 another protocol\r\n")

    async with served(talk) as port:
        with pytest.raises(Transient, match="TLS handshake failed: the server's port speaks no TLS"):
            await get(transport, f"https://127.0.0.1:{port}/")


async def test_nobody_listens(transport):
    """In the system's words, without address or URL."""
    async with RawServer() as server:
        pass
    with pytest.raises(Transient) as caught:
        await get(transport, f"{server.url}?sig={CANARY}")
    assert str(caught.value) == "cannot connect: Connection refused"


@pytest.fixture
def gate(monkeypatch):
    """No connection is made before it opens: when a kernel asks a full backlog again differs."""
    made = asyncio.Event()
    connect = aiohappyeyeballs.start_connection

    async def connect_late(*args, **options):
        await made.wait()
        return await connect(*args, **options)

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", connect_late)
    return made


async def begun(transport, listener):
    """A request whose handshake is under way: what is noted of it, and its task.

    Each look at its clock takes a second: by uvloop's, which has milliseconds, a handshake may take no time.
    """
    connecting = Connecting(itertools.count(1.0).__next__)
    url = SecretUrl(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    asking = asyncio.create_task(transport.open(url, {}, {}, fresh=True, connecting=connecting))
    async with asyncio.timeout(60):
        while connecting.since_s is None:
            await asyncio.sleep(0)
    return connecting, asking


@pytest.mark.usefixtures("gate")
async def test_a_handshake_that_is_given_up_has_no_end(transport):
    """No connection was made, so that the host is known to have been silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connecting, asking = await begun(transport, listener)
        asking.cancel()
        await asyncio.wait([asking])
        assert connecting.since_s is not None


async def test_a_late_handshake_is_told_apart_from_a_slow_reply(transport, gate):
    """The handshake ends when the connection is made, although the server says nothing yet."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it accepts nothing, so it says nothing
        connecting, asking = await begun(transport, listener)
        gate.set()
        async with asyncio.timeout(60):
            while connecting.since_s is not None:
                await asyncio.sleep(0)
        assert connecting.total_s(0.0) > 0
        if sys.platform == "linux":  # its kernel measures in microseconds, however late this process looks
            assert connecting.round_trip_s is not None
            assert 0 < connecting.round_trip_s < 60
        assert not asking.done()  # the connection is made, and the reply is slow
        asking.cancel()
        await asyncio.wait([asking])


async def test_34_a_black_hole_is_left_after_the_time_out():
    """Connecting has its own limit."""
    made = HttpTransport(connect_timeout_s=0.05)
    assert (made._pool._timeout.sock_connect, made._pool._timeout.total) == (0.05, None)
    await made.close()


async def test_63_a_proxy_of_the_environment_is_not_used(transport, monkeypatch):
    """Unless it is asked for: it would see the URLs."""
    async with RawServer(reply(b"x")) as server, RawServer(reply(b"proxied")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert (await get(transport, server.url))[1] == b"x"
    assert proxy.heads == []


def made(kind):
    """An instance of a foreign exception with the canary in whatever text it takes."""
    secret = f"http://h/?sig={CANARY}"
    key = Mock(host=secret, port=1, ssl=True, is_ssl=True)
    info = Mock(real_url=secret)
    for args in [
        (key, OSError(104, secret)), (key, ssl.SSLCertVerificationError(1, secret)), (info, ()),
        (secret.encode(), secret, 1, 1), (b"a", b"b", secret, 1), (secret.encode(), 1),
        (secret,), (1, secret), (),
        (secret, key, OSError(104, secret)),
    ]:  # fmt: skip
        with contextlib.suppress(TypeError, AttributeError):
            return kind(*args)
    raise AssertionError(f"cannot make {kind}")


FOREIGN = sorted(
    {
        kind
        for module in (client_exceptions, http_exceptions)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, (aiohttp.ClientError, http_exceptions.HttpProcessingError))
    }
    | {
        OSError,
        TimeoutError,
        ConnectionResetError,
        BrokenPipeError,
        ssl.SSLError,
        ssl.SSLEOFError,
        ValueError,
    }
    | {UnicodeError, ssl.SSLCertVerificationError},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.__name__)
def test_106_every_foreign_error_has_our_form(kind):
    """Permanent only where asking again cannot help; never a word of the original's text."""
    foreign = made(kind)
    ours = map_error(foreign)
    assert CANARY not in repr(ours) + str(ours)
    permanent = issubclass(
        kind, (ValueError, aiohttp.ClientConnectorCertificateError, aiohttp.ClientHttpProxyError)
    )
    permanent = permanent and kind is not ssl.SSLCertVerificationError  # the client raises the other one
    assert isinstance(ours, Refused if permanent else Transient)
    assert str(ours)[0].islower()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_99_no_more_descriptors_is_no_fault_of_the_server(number):
    """It ends the run with a remedy, instead of failing one entry after the other."""
    key = Mock(host=CANARY, port=1, ssl=None)
    ours = map_error(aiohttp.ClientConnectorError(key, OSError(number, os.strerror(number))))
    assert isinstance(ours, LocalFault)
    assert str(ours).startswith("cannot open a connection: Too many open files")


def test_a_refused_connection_is_one_whoever_made_it():
    """FTP's client raises the system's own error, which was called a connection that broke."""
    refused = map_error(ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))
    assert str(refused) == "cannot connect: Connection refused"


async def test_every_foreign_error_is_caught_where_it_is_raised(transport, monkeypatch):
    """By ``open`` and by ``read``, whatever aiohttp's own hierarchy says."""
    async with RawServer(reply(b"x" * 9, "Content-Length: 10", length=False)) as server:
        for kind in FOREIGN:
            response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
            response.lose_connection(made(kind))
            response.read_buffered()
            with pytest.raises(SourceError):
                await response.read()
            with monkeypatch.context() as patched:
                patched.setattr(transport._pool._connector, "connect", Mock(side_effect=made(kind)))
                with pytest.raises(SourceError):
                    await transport.open(SecretUrl(server.url), {}, {}, fresh=False)


@pytest.mark.parametrize(("keep_alive", "connections"), [(True, 1), (False, 2)])
async def test_plans_of_many_hosts_keep_no_idle_connections(keep_alive, connections):
    """Each idle one would hold a descriptor for seconds."""
    made = HttpTransport(connect_timeout_s=5.0, keep_alive=keep_alive)
    async with RawServer(reply(b"x")) as server:
        for _ in range(2):
            await get(made, server.url)
        assert server.connections == connections
        await made.close()


async def test_no_more_connections_are_kept_than_a_host_has_for_this_process(transport):
    """Idle ones are closed at once, and others when their replies end; another host's are kept."""
    async with RawServer(reply(b"x")) as server, RawServer(reply(b"x")) as other:
        await asyncio.gather(
            *(get(transport, each.url, fresh=True) for each in (server, server, server, other))
        )
        pool, origins = transport._pool, [each.url.rstrip("/") for each in (server, other)]
        assert [len(pool._idle[origin]) for origin in origins] == [3, 1]
        transport.keep_at_most({f"127.0.0.1:{server.port}": 2})
        assert [len(pool._idle[origin]) for origin in origins] == [2, 1]
        await asyncio.gather(*(get(transport, server.url, fresh=True) for _ in range(2)))
        assert [len(pool._idle[origin]) for origin in origins] == [2, 1]
        transport.keep_at_most({})
        await get(transport, server.url, fresh=True)
        assert [len(pool._idle[origin]) for origin in origins] == [3, 1]
        assert not pool._busy
        assert len(pool._connector._acquired) == 4


async def test_a_connection_that_has_waited_too_long_is_closed_and_not_asked(monkeypatch):
    """A server may be about to close it; the one that has waited for less is asked."""
    made = HttpTransport(connect_timeout_s=5.0, idle_s=60.0)
    loop = asyncio.get_running_loop()
    start_s, passed_s = loop.time(), 0.0
    monkeypatch.setattr(made._pool, "_loop", Mock(wraps=loop, time=lambda: start_s + passed_s))
    async with RawServer(reply(b"x")) as server:
        await get(made, server.url)
        passed_s = 60.0
        await get(made, server.url)
        assert server.connections == 1
        passed_s = 120.5
        await get(made, server.url)
        assert server.connections == 2
        passed_s = 181.0
        made._pool._sweep()
        assert not made._pool._idle
        assert not made._pool._connector._acquired
    await made.close()
