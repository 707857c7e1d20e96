"""What cfetch uses of aiohttp without a promise of aiohttp's: the bound in pyproject.toml has no ceiling.

If a new aiohttp changes one of these, its row fails here, with the file that has to follow, before a download
fails somewhere else.
"""

import asyncio
import inspect
from importlib import import_module

import aiohttp
import aiohttp.web  # it does not come with aiohttp itself
import pytest
import yarl

from cfetch.base.config.wire import MAX_HEAD_BYTES
from cfetch.wire.connections import _Connector

_SERVER = "aiohttp.web.RequestHandler"
METHODS = [  # whose, its name, the parameters that are passed, whether it is awaited; who uses it
    ("aiohttp.TCPConnector", "_create_proxy_connection", ["req"], True, "wire/connections.py"),
    ("aiohttp.TCPConnector", "_wrap_create_connection", ["addr_infos"], True, "wire/connections.py"),
    ("aiohttp.TCPConnector", "_start_tls_connection", [], True, "wire/connections.py"),
    ("aiohttp.TCPConnector", "connect", ["req", "traces", "timeout"], True, "wire/connections.py"),
    ("aiohttp.TCPConnector", "clear_dns_cache", [], False, "wire/connections.py"),
    ("aiohttp.ClientRequest", "__init__", ["headers", "proxy", "loop"], False, "wire/http.py"),
    ("aiohttp.ClientRequest", "is_ssl", [], False, "wire/http.py, wire/connections.py"),
    (_SERVER, "pause_writing", [], False, "wire/serving.py"),
    (_SERVER, "data_received", ["data"], False, "wire/serving.py"),
    (_SERVER, "finish_response", ["request", "resp", "start_time"], True, "wire/serving.py"),
    ("aiohttp.client_proto.ResponseHandler", "__init__", ["loop"], False, "wire/connections.py"),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name", "parameters", "is_awaited", "user"), METHODS, ids=str)
def test_a_method_is_as_it_was(owner, name, parameters, is_awaited, user):
    """The method is there, takes these parameters, and is a coroutine where it is awaited."""
    module, _, kind = owner.rpartition(".")
    method = getattr(getattr(import_module(module), kind), name, None)
    said = f"aiohttp {aiohttp.__version__} has another {kind}.{name} than cfetch/{user} uses"
    assert method is not None, said
    known = inspect.signature(method).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values())
    assert takes_any or set(parameters) <= known.keys(), said
    assert inspect.iscoroutinefunction(method) == is_awaited, said


async def test_the_attributes_are_as_they_were():
    """The connector keeps its factory of protocols, a request its headers, and a server's its messages."""
    said = f"aiohttp {aiohttp.__version__} has changed inside: "
    plain = aiohttp.TCPConnector()
    assert "_factory" in vars(plain), f"{said}TCPConnector._factory, see wire/connections.py"
    request = aiohttp.ClientRequest(
        "GET", yarl.URL("http://h/"), headers={"X-A": "b"}, proxy=None, loop=asyncio.get_running_loop()
    )
    assert request.headers["X-A"] == "b", f"{said}ClientRequest.headers, see wire/http.py"
    source = inspect.getsource(aiohttp.web.RequestHandler)
    assert "self._messages" in source, f"{said}RequestHandler._messages, see wire/serving.py"
    own = _Connector(1 << 16, MAX_HEAD_BYTES)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        wanted = aiohttp.ClientRequest(
            "GET", yarl.URL(f"http://127.0.0.1:{port}/"), loop=asyncio.get_running_loop()
        )
        made = await own.connect(wanted, [], aiohttp.ClientTimeout())
        assert type(made.protocol).__name__ == "PooledConnection", (
            f"{said}the factory, see wire/connections.py"
        )
        made.close()
    await own.close()
    await plain.close()
