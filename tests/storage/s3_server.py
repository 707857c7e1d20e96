"""A real object store on loopback: moto's server in a process of its own, and what is really in a bucket."""

import asyncio
import http.client
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

__all__ = ["Bucket", "MotoServer", "bucket", "moto_server", "point_at"]

CHILD = """
import functools
import json
import logging
import sys
import threading
from collections import Counter
from urllib.parse import parse_qs
from moto.core import errors
from moto.moto_server import threaded_moto_server as moto

# for each request moto lists its own package's directory twice, makes a table of errors and writes to a log
errors.ErrorLookupFactory = functools.cache(errors.ErrorLookupFactory)
logging.getLogger("werkzeug").setLevel(logging.ERROR)
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate</Message></Error>"


def kind_of(method, query):
    names = parse_qs(query, keep_blank_values=True)
    special = [name for name in ("uploads", "uploadId", "list-type", "delete") if name in names]
    return " ".join([method, *special])


class Watched(moto.DomainDispatcherApplication):
    get_backend_for_host = functools.cache(moto.DomainDispatcherApplication.get_backend_for_host)
    asked, busy, conditions, permitted = Counter(), {}, [], ["all"]
    condition_and_write = threading.Lock()

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/-/asked":
            told = json.dumps(self.asked).encode()
            self.asked.clear()
            start_response("200 OK", [("Content-Length", str(len(told)))])
            return [told]
        if environ["PATH_INFO"] == "/-/busy":
            self.busy.clear()
            self.busy["times"] = int(environ["QUERY_STRING"])
            start_response("200 OK", [("Content-Length", "0")])
            return [b""]
        if environ["PATH_INFO"] == "/-/conditions":
            self.conditions[:] = [environ["QUERY_STRING"]]
            start_response("200 OK", [("Content-Length", "0")])
            return [b""]
        if environ["PATH_INFO"] == "/-/permitted":
            self.permitted[:] = [environ["QUERY_STRING"]]
            start_response("200 OK", [("Content-Length", "0")])
            return [b""]
        if self.conditions == ["ignored"]:
            environ.pop("HTTP_IF_MATCH", None)
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if self.conditions == ["refused"] and {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"} & set(environ):
            start_response("501 Not Implemented", [("Content-Length", "0")])
            return [b""]
        kind = kind_of(environ["REQUEST_METHOD"], environ["QUERY_STRING"])
        self.asked[kind] += 1
        if self.permitted == ["reading"] and environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Length", str(len(DENIED)))])
            return [DENIED]
        left = self.busy.setdefault(kind, self.busy.get("times", 0))
        if left:
            self.busy[kind] = left - 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("503 Slow Down", [("Content-Length", str(len(SLOW_DOWN)))])
            return [SLOW_DOWN]
        if {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"} & set(environ):
            with self.condition_and_write:  # moto checks first and writes then: two threads may both be right
                return super().__call__(environ, start_response)
        return super().__call__(environ, start_response)


moto.DomainDispatcherApplication = Watched
server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
PREFIX = "some/prefix"
LOGIN = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
numbers = itertools.count(1)


class MotoServer:
    """Ends with its parent, as its stdin does."""

    def __init__(self):
        self.child = subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.child.stdout is not None
        self.port = int(self.child.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def kill(self):
        """As a store that goes away; once is enough."""
        self.child.kill()
        self.child.communicate()

    def take_asked(self):
        """The number of requests since the last call, by kind."""
        return Counter(json.loads(self.ask("GET", "/-/asked")[2]))

    def be_busy(self, times):
        """Answer so many of the next requests of each kind with 503."""
        self.ask("GET", f"/-/busy?{times}")

    def treat_conditions(self, how):
        """Treat conditional writes as other stores do: ``ignored``, ``refused``, or ``kept``."""
        self.ask("GET", f"/-/conditions?{how}")

    @contextmanager
    def only_reading(self):
        """Deny all requests but those that read, as to a login that may do no more."""
        self.ask("GET", "/-/permitted?reading")
        try:
            yield
        finally:
            self.ask("GET", "/-/permitted?all")

    def ask(self, method, target, body=None, **fields):
        """Status, headers and body of one exchange; moto looks at no signature."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body=body, headers={"Authorization": LOGIN, **fields})
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()


class Bucket:
    """``url`` is a destination in it. Keys are told without its prefix."""

    def __init__(self, server):
        self.server = server
        self.name = f"bucket-{next(numbers)}"
        self.url = f"s3://{self.name}/{PREFIX}"
        assert server.ask("PUT", f"/{self.name}")[0] == 200

    def keys(self):
        """Of all objects, sorted; those outside the prefix with a slash before."""
        return [_below(text) for text in self._texts("list-type=2&max-keys=1000", "Key")]

    def uploads(self):
        """Of all uploads that were begun and not ended."""
        return [_below(text) for text in self._texts("uploads", "Key")]

    async def end_uploads(self, pieces):
        """Somebody else aborts them all, when that many pieces have arrived."""
        for key, number in zip(
            self._texts("uploads", "Key"), self._texts("uploads", "UploadId"), strict=True
        ):
            target = f"/{self.name}/{quote(key)}?uploadId={number}"
            while self.server.ask("GET", target)[2].count(b"<PartNumber>") < pieces:
                await asyncio.sleep(0)  # they are sent by tasks of the same loop
            assert self.server.ask("DELETE", target)[0] == 204

    def get(self, key):
        """The object's bytes."""
        status, _, body = self.server.ask("GET", self._target(key))
        assert status == 200
        return body

    def head(self, key):
        """Its header fields."""
        status, fields, _ = self.server.ask("HEAD", self._target(key))
        assert status == 200
        return fields

    def put(self, key, body, **fields):
        """Another tool puts an object."""
        assert self.server.ask("PUT", self._target(key), body, **fields)[0] == 200

    def _target(self, key):
        return f"/{self.name}/{PREFIX}/{quote(key)}"

    def _texts(self, query, tag):
        _, _, body = self.server.ask("GET", f"/{self.name}?{query}")
        found = ElementTree.fromstring(re.sub(rb' xmlns="[^"]*"', b"", body)).iter(tag)
        return sorted(one.text for one in found)


def _below(key):
    return key.removeprefix(f"{PREFIX}/") if key.startswith(f"{PREFIX}/") else f"/{key}"


def point_at(monkeypatch, url):
    """The settings that a user has in the environment, for the store at ``url``."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "CANARY-KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "CANARY-SECRET")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture(scope="session")
def moto_server():
    """One for all tests of a worker."""
    server = MotoServer()
    yield server
    server.kill()


@pytest.fixture
def bucket(moto_server, monkeypatch):
    """An empty one, and an environment that leads to it."""
    point_at(monkeypatch, moto_server.url)
    return Bucket(moto_server)
