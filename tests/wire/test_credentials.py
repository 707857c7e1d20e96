"""The user's headers, token and cookies: which request gets them, and what is wrong with them."""

import time

import pytest

from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.base.secret import SecretUrl
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import make_network
from tests.wire.raw_server import RawServer, reply

CANARY = "CANARY0123456789"
MAGIC = "# Netscape HTTP Cookie File\n"


def credentials_of(**options):
    return make_network(
        NetworkOptions(**options), {"TOKEN": f"{CANARY}\n", "EMPTY": " ", "ODD": "a b"}
    ).credentials


async def fields_of(url, *servers, secrets=(), **options):
    """What each server was asked with, once the request has come to its end."""
    network = make_network(NetworkOptions(**options), {"TOKEN": CANARY})
    transport = HttpTransport(connect_timeout_s=5, network=network)
    try:
        await (await transport.open(SecretUrl(url), {}, dict(secrets), fresh=False)).read()
    finally:
        await transport.close()
    return [[server.fields(n) for n in range(len(server.heads))] for server in servers]


async def test_headers_and_token_stay_with_their_host():
    """A redirect to another origin loses them, also where that host may have them; User-Agent goes along."""
    async with RawServer(reply(b"x")) as away, RawServer() as start:
        start.replies = [
            reply(b"", "Location: /two", status="302 x"),
            reply(b"", f"Location: {away.url}", status="302 x"),
        ]
        hosts = tuple(SecretUrl(server.url).host() for server in (start, away))
        mine, others = await fields_of(
            start.url,
            *(start, away),
            header=(f"X-Key:  {CANARY} ",),
            header_host=hosts,
            bearer_env="TOKEN",
            user_agent="lake/1",
        )
        assert [(f["x-key"], f["authorization"]) for f in mine] == [(CANARY, f"Bearer {CANARY}")] * 2
        assert {f["user-agent"] for f in mine + others} == {"lake/1"}
        assert CANARY not in away.heads[0]


@pytest.mark.parametrize(
    ("hosts", "is_sent"), [((), False), (("h.test",), False), (("127.0.0.1",), False), (("*",), True)]
)
async def test_a_host_that_nobody_has_named_gets_nothing(hosts, is_sent):
    """A host has its port: another one on the same machine may be another's."""
    async with RawServer(reply(b"x")) as server:
        [[fields]] = await fields_of(server.url, server, header=(f"X-Key: {CANARY}",), header_host=hosts)
    assert ("x-key" in fields) is is_sent


async def test_what_the_manifest_states_for_a_file_counts_more():
    """A link's own header, however it is written."""
    async with RawServer(reply(b"x")) as server:
        options = {"header": (f"Authorization: {CANARY}",), "header_host": ("*",)}
        [[fields]] = await fields_of(server.url, server, secrets={"authorization": "mine"}, **options)
    assert fields["authorization"] == "mine"


async def test_a_cookie_goes_to_its_own_domain_and_path(tmp_path):
    """Redirects included, as with a browser; what has expired or is for TLS only stays here."""
    jar, now = tmp_path / "c.txt", int(time.time())
    lines = [
        f"127.0.0.1\tFALSE\t/in\tFALSE\t0\tsession\t{CANARY}",
        f"#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t{now + 999}\tlong\t1",
        f"127.0.0.1\tFALSE\t/\tFALSE\t{now - 999}\told\t{CANARY}",
        f"127.0.0.1\tFALSE\t/\tTRUE\t0\tsafe\t{CANARY}",
        f".h.test\tTRUE\t/\tFALSE\t0\tother\t{CANARY}",
    ]
    jar.write_text(MAGIC + "\n".join(lines) + "\n")
    moves = [reply(b"", "Location: /out", "Set-Cookie: new=1", status="302 x"), reply(b"x")]
    async with RawServer(*moves) as server:
        [[first, second]] = await fields_of(f"{server.url}in/a", server, cookies=str(jar))
    assert sorted(first["cookie"].split("; ")) == ["long=1", f"session={CANARY}"]
    assert sorted(second["cookie"].split("; ")) == ["long=1"]  # the new one is for /in
    cookies = credentials_of(cookies=str(jar)).cookies
    assert cookies.header_for(SecretUrl("https://a.h.test/x")) == f"other={CANARY}"
    assert cookies.header_for(SecretUrl("https://ah.test/x")) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": (f"Range: {CANARY}",)}, "header: Range is set by cfetch itself"),
        ({"header": (f"Authorization: {CANARY}",), "bearer_env": "TOKEN"}, "authorization is given twice"),
        ({"bearer_env": "NIX"}, "bearer_env is NIX, and no environment variable"),
        ({"bearer_env": "EMPTY"}, "bearer_env is EMPTY, and no environment variable"),
        ({"bearer_env": "ODD"}, "holds spaces or controls"),
        ({"cookies": "no/such"}, "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_sent(options, message):
    """The message names the option, and no value."""
    with pytest.raises(ConfigError, match=message) as caught:
        credentials_of(**options)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("text", [f"a={CANARY}", f"{MAGIC}h.test\t{CANARY}\n", b"\xff\xfe"])
def test_a_file_that_holds_no_cookies(tmp_path, text, capsys):
    """The form is named, and no line is quoted."""
    path = tmp_path / "c.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match="Netscape") as caught:
        credentials_of(cookies=str(path))
    assert CANARY not in str(caught.value) + capsys.readouterr().err
