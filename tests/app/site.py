"""A server of a few files, and a list of them without sizes that is downloaded from it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.events import EntryFinished, tell_each

__all__ = ["NAMES", "Runner", "Site"]

NAMES = [f"d/{number}.bin" for number in range(5)]


class Site:
    """A server of files by name; ``asked``: method, name and status of each request."""

    def __init__(self):
        self.files = {name: name.encode() * 100 for name in NAMES}
        self.has_etags = True
        self.knows_etags = True  # else it looks at times alone, and finds nothing changed
        self.knows_conditions = True
        self.etag_prefix = ""
        self.content_type = ""
        self.dispositions: dict[str, str] = {}  # by name
        self.asked: list[tuple[str, str, int]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                name = self.path.partition("?")[0].strip("/")
                body = site.files.get(name, b"")
                etag = f'"{site.etag_prefix}{hash(body):x}"'
                knows_etags = site.has_etags and site.knows_etags
                same = knows_etags and self.headers["If-None-Match"] == etag
                same = same or (not knows_etags and "If-Modified-Since" in self.headers)
                same = same and site.knows_conditions
                status = 404 if name not in site.files else 304 if same else 200
                site.asked.append((self.command, name, status))
                self.send_response(status)
                if site.has_etags:
                    self.send_header("ETag", etag)
                if name in site.dispositions:
                    self.send_header("Content-Disposition", site.dispositions[name])
                if site.content_type:
                    self.send_header("Content-Type", site.content_type)
                if status != 304:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if status == 200:
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take_asked(self):
        """The statuses of the requests since the last call, by name."""
        asked, self.asked = self.asked, []
        return {name: status for _, name, status in asked}

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Runner:
    """Downloads the list; ``in_place``: what a dry run says; ``exit_code`` and ``errors`` of the last run."""

    def __init__(self, site, folder):
        self.in_place = self.exit_code = 0
        self.summary: Any = None
        self.errors: dict[str, str | None] = {}
        self.urls, self.to = folder / "urls.txt", folder / "to"
        self.urls.write_text("".join(f"{site.url}{name}\n" for name in NAMES))

    def __call__(self, **settings):
        """What has happened to each file."""
        ended = {}

        def note(event):
            if isinstance(event, EntryFinished):
                ended[event.record.path] = event.record.status
                self.errors[event.record.path] = event.record.error

        chosen = Settings(**{"to": (str(self.to),), "name_by": "url-path", **settings})
        with prepare(str(self.urls), chosen, env={}) as prepared:
            self.in_place = prepared.preview().in_place
            summary = prepared.run(tell_each(note))
        assert summary is not None
        self.summary = summary
        self.exit_code = summary.exit_code
        return ended
