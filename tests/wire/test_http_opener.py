"""The system's certificates are read with the first handshake, and not while aiohttp is imported."""

import asyncio
import os
import socket
import ssl
import sys

import pytest

from cfetch.wire.http_opener import LateTrust, reading_certificates_late
from tests.wire.raw_server import RawServer, reply
from tests.wire.wire import serving

ASK = """
import asyncio, sys
from cfetch.base.secret import SecretUrl
from cfetch.wire.network import DIRECT
from cfetch.wire.transport import RunTransport

async def ask():
    transport = RunTransport(connect_timeout_s=30, network=DIRECT)
    asking = transport.open(SecretUrl(sys.argv[1]), {}, {}, fresh=False)
    from aiohttp import connector
    before = type(connector._SSL_CONTEXT_VERIFIED).__name__
    answer = await asking
    print(before, answer.status, type(connector._SSL_CONTEXT_VERIFIED).__name__)
    answer.close()
    await transport.close()

asyncio.run(ask())
"""


@pytest.fixture
def system(authority, monkeypatch, tmp_path):
    """A system that knows one CA, by OpenSSL's own variables."""
    monkeypatch.setenv("SSL_CERT_FILE", authority.file)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


def _begin_in_memory(context):
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="host.test")


def _begin_over_socket(context):
    plain = socket.socket()
    context.wrap_socket(plain, server_hostname="host.test", do_handshake_on_connect=False).close()


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("begin", [_begin_in_memory, _begin_over_socket])
def test_contexts_read_the_certificates_with_their_first_handshake(begin):
    """Both kinds that aiohttp makes; contexts that are made later are as usual."""
    with reading_certificates_late():
        verifying, other = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        other.set_default_verify_paths()
    for context in (verifying, other):
        assert (type(context), context.get_ca_certs()) == (LateTrust, [])
        for _ in range(2):
            begin(context)
            assert (type(context), len(context.get_ca_certs())) == (ssl.SSLContext, 1)
    assert verifying.check_hostname
    usual, other = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    other.set_default_verify_paths()
    assert [len(context.get_ca_certs()) for context in (usual, other)] == [1, 1]


def test_what_another_library_has_put_there_stays(monkeypatch):
    """Some give ``ssl`` a class or a method of their own, which trusts by other rules."""

    class Foreign:
        def load_default_certs(self):
            """Trust by other rules."""

    usual = ssl.SSLContext.load_default_certs
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", usual, raising=False)
    with reading_certificates_late():
        assert ssl.SSLContext.load_default_certs is usual
    monkeypatch.setattr(ssl, "SSLContext", Foreign)
    foreign = Foreign.load_default_certs
    with reading_certificates_late():
        assert Foreign.load_default_certs is foreign


@pytest.mark.usefixtures("system")
async def test_the_first_request_imports_aiohttp_without_certificates(authority):
    """A process of its own, as aiohttp is imported here; its first connection trusts the system's CA."""
    async with RawServer(reply(b"x"), ssl=serving(authority, "127.0.0.1")) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ASK, server.url, env=os.environ, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    assert output.split() == [b"LateTrust", b"200", b"SSLContext"]
