"""Logins in URLs: who gets them, and in what form."""

import base64

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import Transient
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.manifest.url_completion import encode_url
from cfetch.manifest.urls import strip_signature
from cfetch.wire.network import Network, make_network
from cfetch.wire.transport import RunTransport
from tests.wire.raw_server import RawServer, reply
from tests.wire.test_session import Digest
from tests.wire.wire import CANARY

pytestmark = pytest.mark.parametrize("transport", ["lean", "session"])


async def ask(url, transport, *, logins=(), secrets=(), **settings):
    """One request of a run, and its reply's status and address."""
    network = make_network(Settings(transport=transport, **settings).network, {})
    if logins:
        network = Network(
            logins={key: SecretText(value) for key, value in logins},
            needs_session=network.needs_session,
            logs_in_at_redirects=network.logs_in_at_redirects,
        )
    one = RunTransport(connect_timeout_s=5.0, network=network)
    try:
        response = await one.open(SecretUrl(url), {}, dict(secrets), fresh=False)
        response.close()
        return response.status, response.place.reveal()
    finally:
        await one.close()


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


def logins_of(server):
    return [server.fields(n).get("authorization") for n in range(len(server.heads))]


def moved(url):
    return reply(b"", f"Location: {url}", status="302 x")


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ("user:p%40ss", "user:p@ss"),
        ("user:p@s;s", "user:p@s;s"),
        ("%C3%BC:", "ü:"),
        (":word", ":word"),
        ("user", "user:"),
        ("DOMAIN%5Cuser:x", "DOMAIN\\user:x"),
    ],
)
async def test_a_login_in_a_url_is_sent_as_basic_and_in_no_other_way(login, sent, transport):
    """It stays with the reply's address, so that a page's relative links have it too."""
    async with RawServer(reply(b"x")) as server:
        url = server.url.replace("//", f"//{login}@") + "a/b?c@d"
        assert await ask(url, transport) == (200, url)
    assert logins_of(server) == [basic(sent)]
    assert server.line() == "GET /a/b?c@d HTTP/1.1"
    assert server.fields()["host"] == f"127.0.0.1:{server.port}"


async def test_a_login_goes_along_redirects_of_its_own_origin_only(transport):
    """A redirect that names another login there is followed with that one; another origin gets none."""
    async with RawServer(reply(b"x")) as other, RawServer() as server:
        server.replies = [
            moved("/relative"),
            moved(f"{server.url}absolute"),
            moved(server.url.replace("//", "//two:2@")),
            moved(f"{other.url}p@th"),
        ]
        await ask(server.url.replace("//", "//one:1@"), transport, logins=[("127.0.0.1", basic("netrc:n"))])
    assert logins_of(server) == [basic("one:1")] * 3 + [basic("two:2")]
    assert logins_of(other) == [None]


async def test_a_redirect_may_name_a_login_for_its_target_and_draws_none_of_netrc(transport):
    """Of a user without a password neither, unless the user wants logins at redirects."""
    kept = [("127.0.0.1", basic("netrc:n")), ("mary@127.0.0.1", basic("mary:m"))]
    sent = []
    for target, draws in (("two:2@", False), ("mary@", False), ("mary@", True)):
        async with RawServer(reply(b"x")) as other, RawServer() as server:
            server.replies = [moved(other.url.replace("//", f"//{target}"))]
            await ask(server.url, transport, logins=kept, netrc_redirects=draws)
        sent += logins_of(other)
    assert sent == [basic("two:2"), basic("mary:"), basic("mary:m")]


async def test_netrc_has_the_password_of_a_user_in_a_url(transport):
    """That of this user, where netrc has several for the host; another user has none."""
    kept = [("127.0.0.1", basic("first:f")), ("mary@127.0.0.1", basic("mary:m"))]
    async with RawServer(*[reply(b"x")] * 4) as server:
        for login in ("mary@", "mary:own@", "john@", ""):
            await ask(server.url.replace("//", f"//{login}"), transport, logins=kept)
    assert logins_of(server) == [basic("mary:m"), basic("mary:own"), basic("john:"), basic("first:f")]


async def test_headers_that_the_user_states_outweigh_a_login_in_a_url(transport):
    """Those of the manifest, and those of the options for this host."""
    async with RawServer(*[reply(b"x")] * 2) as server:
        url = server.url.replace("//", "//one:1@")
        await ask(url, transport, secrets=[("authorization", "Bearer entry")])
        host = f"127.0.0.1:{server.port}"
        await ask(url, transport, header=("Authorization: Bearer option",), header_host=(host,))
    assert logins_of(server) == ["Bearer entry", "Bearer option"]


async def test_a_login_in_a_url_is_given_by_digest_where_the_server_asks_for_it(transport):
    """As one of netrc is."""
    async with Digest() as server:
        status, _ = await ask(server.url.replace("//", f"//mary:{CANARY}@"), transport)
    assert (status, server.ways) == (200, ["Basic", "none", "Digest"])


def test_a_password_is_no_part_of_a_links_identity(transport):
    """A user is, as each may have files of their own; a list may write a login without its encoding."""
    assert strip_signature("http://u:p@h/a@1") == strip_signature("http://u:q@@h/a@1") == "http://u@h/a@1"
    assert strip_signature("http://h/a@1?x=ftp://u:p@h") == "http://h/a@1?x=ftp://u:p@h"
    assert encode_url("http://ü:a b@bücher.test/ü") == "http://%C3%BC:a%20b@xn--bcher-kva.test/%C3%BC"


async def test_who_fails_behind_a_redirect_is_named(transport):
    """The entry's own host has answered; a login in the redirect is not told."""
    async with RawServer(reply(b"x")) as gone:
        target = gone.url.replace("//", "//user:secret@")
    async with RawServer(moved(target)) as server:
        with pytest.raises(Transient) as failure:
            await ask(server.url, transport)
    assert str(failure.value) == (
        f"cannot connect: Connection refused (at 127.0.0.1:{gone.port}, to which the server redirects)"
    )
