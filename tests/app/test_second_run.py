"""The second run of a list without sizes: what is there is known again, and only what is not is fetched."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cfetch.app.plans import clean_plans
from cfetch.base.config.settings import Settings
from cfetch.run.volumes import OBJECTS
from cfetch.storage.buckets.object_uploads import OpenUploads
from tests.app.site import NAMES
from tests.engine.drive import tree


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


def test_a_server_without_conditions_is_believed_by_its_etags(site, run, tmp_path):
    """It sends all again; what has the ETag of the file in place is not read."""
    site.knows_conditions = False
    run()
    site.files[NAMES[3]] = b"another version"
    assert run(existing="check") == {name: "done" if name == NAMES[3] else "skipped" for name in NAMES}
    assert tree(tmp_path / "to") == site.files


def test_a_long_etag_tells_a_version_that_the_date_does_not(site, run, tmp_path):
    """A server that goes by dates answers 304 for an older version that was put back; its ETag is another."""
    site.knows_etags, site.etag_prefix = False, "x" * 80
    run()
    site.files[NAMES[3]] = b"an older version"
    assert run(existing="trust") == dict.fromkeys(NAMES, "skipped")
    site.take_asked()
    assert run(existing="check") == {name: "done" if name == NAMES[3] else "skipped" for name in NAMES}
    assert [status for _, name, status in site.asked if name == NAMES[3]] == [304, 200]
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


def test_objects_in_a_bucket_are_known_again(site, run, bucket, tmp_path):
    """A destination in a store has the same three ways as a directory."""
    to = {"to": (bucket.url,), "state": str(tmp_path / "state")}
    assert run(**to) == dict.fromkeys(NAMES, "done")
    site.take_asked()
    site.files[NAMES[3]] = b"another version"
    bucket.server.take_asked()
    assert (run(**to), site.take_asked()) == (dict.fromkeys(NAMES, "skipped"), {})
    own_mark = {"GET list-type": 1, "PUT": 2, "POST delete": 1}
    assert bucket.server.take_asked() == Counter({"GET list-type": 2}) + Counter(own_mark)
    changed = {name: name == NAMES[3] for name in NAMES}
    assert run(**to, existing="check") == {
        name: "done" if new else "skipped" for name, new in changed.items()
    }
    assert site.take_asked() == {name: 200 if new else 304 for name, new in changed.items()}
    assert {name: bucket.get(name) for name in NAMES} == site.files
    assert run(**to, existing="refetch") == dict.fromkeys(NAMES, "done")
    assert site.take_asked() == dict.fromkeys(NAMES, 200)


def test_a_command_that_is_killed_in_mid_upload_leaves_none_after_the_next(bucket, tmp_path):
    """The next run aborts the open upload, brings the file, and nothing of the first is left."""
    body = bytes(range(256)) * (12 << 12)
    is_whole = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body[: 11 << 20])
                is_whole.wait(60)
                self.wfile.write(body[11 << 20 :])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "urls.txt").write_text(f"http://127.0.0.1:{server.server_port}/big.bin\n")
    command = [sys.executable, "-m", "cfetch", "download", str(tmp_path / "urls.txt"), "--quiet"]
    command += ["--to", bucket.url, "--state", str(tmp_path / "state")]
    try:
        first = subprocess.Popen(command)
        while bucket.uploads() != ["big.bin"]:
            assert first.poll() is None
            time.sleep(0.05)
        first.kill()
        first.wait()
        assert bucket.uploads() == ["big.bin"]
        is_whole.set()
        assert subprocess.run(command, check=False, timeout=120).returncode == 0
    finally:
        is_whole.set()
        server.shutdown()
        thread.join()
        server.server_close()
    assert (bucket.uploads(), bucket.get("big.bin")) == ([], body)
    assert not list((tmp_path / "state" / OBJECTS).glob("*.uploads"))


def test_clean_aborts_the_uploads_that_a_killed_run_has_left(site, run, bucket, tmp_path):
    """They are noted in the state; a dry run leaves them."""
    state = tmp_path / "state"
    run(to=(bucket.url,), state=str(state))
    uploads = OpenUploads(state / OBJECTS, bucket.url)
    uploads.begin("big")
    uploads.close()
    assert bucket.server.ask("POST", f"/{bucket.name}/some/prefix/big?uploads")[0] == 200
    for dry_run, left in ((True, ["big"]), (False, [])):
        settings = Settings(to=(bucket.url,), state=str(state))
        clean_plans(settings, rollback_delay_s=0.0, keep_s=1e9, dry_run=dry_run)
        assert bucket.uploads() == left
