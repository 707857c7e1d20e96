"""A server of small files, one of which waits for the test in the middle of its body."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["SlowSite"]

BODY = b"0123456789" * 100


class SlowSite:
    """Serves ``BODY`` at every path but ``missing``; half of ``slow``, and the rest after ``let_go``."""

    def __init__(self):
        self.may_end = threading.Event()
        self.asked: list[str] = []
        self.bodies: dict[str, bytes] = {}  # of files that are not ``BODY``
        self.headers: list[dict[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.strip("/")
                site.asked.append(name)
                site.headers.append({key.lower(): value for key, value in self.headers.items()})
                self.send_response(404 if name == "missing" else 200)
                body = site.bodies.get(name, BODY)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:500])
                if name == "slow":
                    site.may_end.wait(60)
                self.wfile.write(body[500:])

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                """A client that has gone is no error of the test."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def url(self, name):
        """The URL of a file."""
        return f"http://127.0.0.1:{self._server.server_port}/{name}"

    def let_go(self):
        """Send the rest of ``slow``."""
        self.may_end.set()

    def close(self):
        """End the server."""
        self.let_go()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
