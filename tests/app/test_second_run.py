"""The second run of a list without sizes: what is there is known again, and only what is not is fetched."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cfetch.app.download import prepare
from cfetch.config.settings import Settings
from cfetch.events import EntryFinished
from tests.engine.drive import tree

NAMES = [f"d/{number}.bin" for number in range(5)]


class Site:
    """A server of files by name; ``asked``: method, name and status of each request."""

    def __init__(self):
        self.files = {name: name.encode() * 100 for name in NAMES}
        self.has_etags = True
        self.asked: list[tuple[str, str, int]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                name = self.path.strip("/")
                body = site.files.get(name, b"")
                etag = f'"{hash(body):x}"'
                same = site.has_etags and self.headers["If-None-Match"] == etag
                same = same or (not site.has_etags and "If-Modified-Since" in self.headers)
                status = 404 if name not in site.files else 304 if same else 200
                site.asked.append((self.command, name, status))
                self.send_response(status)
                if site.has_etags:
                    self.send_header("ETag", etag)
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


@pytest.fixture
def site():
    found = Site()
    yield found
    found.close()


class Runner:
    """Downloads the list; ``in_place``: what a dry run says; ``exit_code`` of the last run."""

    def __init__(self, site, folder):
        self.in_place = self.exit_code = 0
        self._urls, self._to = folder / "urls.txt", folder / "to"
        self._urls.write_text("".join(f"{site.url}{name}\n" for name in NAMES))

    def __call__(self, **settings):
        """What has happened to each file."""
        ended = {}

        def note(event):
            if isinstance(event, EntryFinished):
                ended[event.record.path] = event.record.status

        chosen = Settings(**{"to": (str(self._to),), "name_by": "url-path", **settings})
        with prepare(str(self._urls), chosen, env={}) as prepared:
            self.in_place = prepared.preview().in_place
            summary = prepared.run(note)
        assert summary is not None
        self.exit_code = summary.exit_code
        return ended


@pytest.fixture
def run(site, tmp_path):
    return Runner(site, tmp_path)


def test_a_complete_set_is_left_alone(site, run, tmp_path):
    """No request at all, though nobody has stated a size."""
    assert run() == dict.fromkeys(NAMES, "done")
    site.take_asked()
    assert run() == dict.fromkeys(NAMES, "skipped")
    assert (run.in_place, site.take_asked()) == (5, {})
    assert tree(tmp_path / "to") == site.files


def test_only_what_is_missing_or_no_longer_whole_is_fetched(site, run, tmp_path):
    """A run that was interrupted, a file that was cut, and one that another tool has put there."""
    del site.files[NAMES[0]]
    run(max_attempts=1)
    assert run.exit_code == 1
    site.files[NAMES[0]] = b"now"
    with (tmp_path / "to" / NAMES[1]).open("r+b") as file:
        file.truncate(3)
    (tmp_path / "to" / NAMES[2]).unlink()
    (tmp_path / "to" / NAMES[2]).write_bytes(b"another tool's")
    site.take_asked()
    run()
    assert (run.in_place, site.take_asked()) == (2, dict.fromkeys(NAMES[:3], 200))
    assert tree(tmp_path / "to") == site.files


@pytest.mark.parametrize("has_etags", [True, False])
def test_check_asks_whether_a_file_has_changed(site, run, tmp_path, has_etags):
    """By its ETag, or by when it came; a body comes only for what has changed."""
    site.has_etags = has_etags
    run()
    site.take_asked()
    changed = {NAMES[3]} if has_etags else set()
    if has_etags:
        site.files[NAMES[3]] = b"another version"
    ended = run(existing="check")
    assert ended == {name: "done" if name in changed else "skipped" for name in NAMES}
    assert site.take_asked() == {name: 200 if name in changed else 304 for name in NAMES}
    assert tree(tmp_path / "to") == site.files


def test_refetch_fetches_all(site, run):
    """Whatever stands there."""
    run()
    site.take_asked()
    assert run(existing="refetch") == dict.fromkeys(NAMES, "done")
    assert (run.in_place, site.take_asked()) == (0, dict.fromkeys(NAMES, 200))


def test_without_extended_attributes_the_record_is_in_the_state(site, run, monkeypatch):
    """The same holds on a file system that has none."""
    monkeypatch.delattr(os, "setxattr")
    monkeypatch.delattr(os, "getxattr")
    run()
    site.take_asked()
    assert run() == dict.fromkeys(NAMES, "skipped")
    assert site.take_asked() == {}


def test_several_volumes_know_their_files_again(site, run, tmp_path):
    """Wherever the first run has put each of them."""
    to = (str(tmp_path / "a"), str(tmp_path / "b"))
    assert run(to=to) == dict.fromkeys(NAMES, "done")
    assert run(to=to) == dict.fromkeys(NAMES, "skipped")
    assert len(site.asked) == 5
