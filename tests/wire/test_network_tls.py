"""Certificates, and what a connection within TLS can do wrong."""

import datetime
import ssl
import warnings

import pytest
import trustme

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Refused, Transient
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, safe_path
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import make_network
from tests.engine.test_pool_wire import fetched
from tests.wire.raw_server import RawServer, reply, served
from tests.wire.wire import CANARY, ask, serving, silence

# --- TLS


async def test_c62_a_ca_file_makes_its_servers_trusted_and_no_others(authority):
    """The control for what follows, and the stranger's certificate."""
    async with RawServer(reply(b"x"), ssl=serving(authority, "127.0.0.1")) as server:
        assert await ask(server.url, ca_file=authority.file) == (200, b"x")
        with pytest.raises(Refused, match="its CA is not known; if you trust it, name it with --ca-file"):
            await ask(server.url)
        assert len(server.heads) == 1


async def test_c62_certificates_that_will_not_do_are_refused_for_good(authority, tmp_path):
    """Expired, for another name, self-signed: each in words, and not a byte of the request is sent."""
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    other = trustme.CA()
    cases = [
        (serving(authority, "127.0.0.1", not_after=past), "it has expired"),
        (serving(authority, "other.test"), "it is for another"),
        (serving(other, "127.0.0.1"), "its CA is not known"),
        (self_signed(tmp_path), "it is self-signed"),
    ]
    for context, words in cases:
        async with RawServer(reply(b"x"), ssl=context) as server:
            with pytest.raises(Refused, match=f"certificate is not accepted: {words}"):
                await ask(f"{server.url}?sig={CANARY}", ca_file=authority.file)
        assert server.heads == []


def self_signed(tmp_path):
    """A CA's own certificate, used by a server."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "c.pem")
    made.private_key_pem.write_to_path(tmp_path / "k.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    return context


def test_a_log_of_keys_that_cannot_be_written_is_named(tmp_path):
    """Python's own contexts raise OSError, also while a library is imported."""
    log = {"SSLKEYLOGFILE": str(tmp_path / "absent/keys")}
    with pytest.raises(ConfigError, match=r"SSLKEYLOGFILE is .*, which cannot be written: No such file"):
        make_network(Settings().network, log)
    (tmp_path / "absent").mkdir()
    assert make_network(Settings().network, log).tls is not None
    assert make_network(Settings().network, {}).tls is None


async def test_c62_tls_older_than_1_2_is_not_spoken(authority):
    """With a CA file and without; another try would change nothing, and OpenSSL's reason is told."""
    for settings in ({"ca_file": authority.file}, {}):
        context = serving(authority, "127.0.0.1")
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that is why
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        async with RawServer(reply(b"x"), ssl=context) as server:
            words = r"handshake failed: .*(protocol|version).*renew it|Connection reset by peer"
            with pytest.raises((Refused, Transient), match=words):  # a reset may be faster than the alert
                await ask(server.url, **settings)
            assert server.heads == []


async def test_c62_a_client_certificate_is_shown_to_servers_that_ask(authority, tmp_path):
    """Without one such a server ends the connection."""
    context = serving(authority, "127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    mine = authority.issue_cert("client.test")
    mine.private_key_and_cert_chain_pem.write_to_path(tmp_path / "mine.pem")
    async with RawServer(reply(b"x"), ssl=context) as server:
        known = {"ca_file": authority.file, "client_cert": str(tmp_path / "mine.pem")}
        assert await ask(server.url, **known) == (200, b"x")
        with pytest.raises(Transient):
            await ask(server.url, ca_file=authority.file)


OK = b"HTTP/1.1 200 OK\r\n"


async def test_c62_a_body_with_a_length_that_is_cut_within_tls_is_tried_again(authority):
    """With close_notify, without it, and by a reset: never taken for the end."""
    for then in ("close", "reset"):
        half = OK + b"Content-Length: 10\r\n\r\nhalf"
        async with RawServer(half, ssl=serving(authority, "127.0.0.1"), then=then) as server:
            with pytest.raises(Transient):
                await ask(server.url, ca_file=authority.file)


async def test_c62_a_body_without_length_is_never_whole_by_its_end_alone(authority, tmp_path, monkeypatch):
    """Cut without close_notify it looks like its end, so without size and hash it is taken for cut."""
    network = make_network(Settings(ca_file=authority.file).network, {})
    monkeypatch.setattr(
        "tests.engine.test_pool_wire.HttpTransport", lambda **how: HttpTransport(**how, network=network)
    )
    async with RawServer(OK + b"\r\nhalf", ssl=serving(authority, "127.0.0.1"), then="reset") as server:
        known = Entry(id=0, path=safe_path("known"), url=SecretUrl(server.url), size_bytes=8)
        blind = Entry(id=1, path=safe_path("blind"), url=SecretUrl(server.url))
        records, _ = await fetched(tmp_path, [known, blind], max_attempts=2)
    assert {path: record.status for path, record in records.items()} == {"known": "failed", "blind": "failed"}
    assert "cut" in records["blind"].error
    assert {path: len(record.attempts) for path, record in records.items()} == {"known": 2, "blind": 2}
    assert not (tmp_path / "blind").exists()


async def test_c37_a_handshake_that_stalls_ends_with_the_time_to_connect():
    """A server that accepts and says nothing where TLS was expected."""
    async with served(silence) as port:
        with pytest.raises(Transient, match="connecting took too long"):
            await ask(f"https://127.0.0.1:{port}/", timeout_s=0.1)
