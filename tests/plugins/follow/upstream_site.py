"""A stand-in for the servers of observed sources, and a follower of it that runs once."""

import threading
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote

from cfetch.base.config.settings import Settings
from cfetch.plugins.follow.use_cases.follow import follow
from cfetch.plugins.follow.use_cases.follow_options import FollowOptions
from tests.engine.drive import tree

__all__ = ["Mirror", "open_site"]


@contextmanager
def open_site(answer):
    """The URL of a server. ``answer(path, query, headers)`` returns status, body and perhaps headers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path, _, query = self.path.partition("?")
            status, body, *more = answer(unquote(path), dict(parse_qsl(query)), self.headers)
            self.send_response(status)
            for name, value in (more[0] if more else {}).items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 304 and self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Mirror:
    """A directory that follows ``feed``; each call is a run of its own, which begins at the checkpoint."""

    def __init__(self, feed, to):
        self.feed, self.to = feed, to
        self.lines = []

    def follow(self, *, clock=None, **options):
        """Run to the feed's end. Raises the error that ended it; returns the summary."""
        self.lines.clear()
        found = follow(
            self.feed,
            Settings(to=(str(self.to),), durability="crash", max_attempts=2, retry_budget=1.0),
            FollowOptions(**({"once": True, "delete": True, "max_delete": 1000} | options)),
            env={},
            dashboard=lambda: nullcontext(lambda _: None),
            emit_line=self.lines.append,
            clock=clock,
        )
        if found.error is not None:
            raise found.error
        return found.summary

    def names(self):
        """The paths of all files."""
        return sorted(tree(self.to))

    def read(self, path):
        """The text of a file."""
        return (self.to / path).read_text()
