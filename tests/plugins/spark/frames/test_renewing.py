"""Rows whose links have expired get fresh ones: from the driver, or, out of its reach, from the source."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.plugins.spark import download, job
from cfetch.plugins.spark.frames.download import _choose_links, _choose_options, _make_work
from cfetch.plugins.spark.frames.frame_hub import LinkAddress, open_frame_hub
from cfetch.plugins.spark.frames.pieces import bring_rows, open_row_directory
from cfetch.plugins.spark.frames.renewing import MOST_LOGGED, LinkSource
from cfetch.plugins.spark.frames.spread import Spread

pa = pytest.importorskip("pyarrow")
NAMES = [f"{n}.bin" for n in range(24)]


class Signed(BaseHTTPRequestHandler):
    """Answers links that are signed with ``new``, and refuses all others."""

    def do_GET(self):
        """The name is the content."""
        body = self.path.partition("?")[0].encode() if self.path.endswith("?sig=new") else b""
        self.send_response(200 if body else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def url():
    """Of a server whose links expire."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Signed) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def rows_of(url):
    """Rows with links that are over."""
    return [{"url": f"{url}{name}?sig=old", "name": name} for name in NAMES]


def sign(link, path):
    """A link that works."""
    assert link.partition("?")[0].endswith(f"/{path}")
    return link.replace("sig=old", "sig=new")


def test_the_driver_renews_the_links_of_all_tasks(spark, url, tmp_path):
    """The function runs in the driver, once for each link; without it the error names it."""
    calls = []

    def renew(link, path):
        calls.append(path)
        return sign(link, path)

    frame = spark.createDataFrame(rows_of(url), "url string, name string")
    results = download(frame, to=tmp_path / "to", path="name", renew=renew).collect()
    assert {row.error for row in results} == {None}
    assert sorted(calls) == sorted(NAMES)
    assert {name: (tmp_path / "to" / name).read_text() for name in NAMES} == {n: f"/{n}" for n in NAMES}
    (row,) = download(frame.limit(1), content=True, path="name").collect()
    assert row.status == "failed"
    assert "download(renew=…) takes a function or a manifest" in row.error


def bring(tmp_path, url, source):
    """The rows of a piece, without Spark, with a source that the task asks itself."""
    options = _choose_options(str(tmp_path / "to"), Settings(), content=False, content_limit="1MiB")
    columns = {"url": "url", "path": "name"}
    work = _make_work(options, columns, Spread(None, 1, 1), is_scratch=False, makes=False)
    open_row_directory(work.options, work.spec)
    batches = bring_rows(work._replace(links=source), pa.Table.from_pylist(rows_of(url)), task=1)
    return [row for batch in batches for row in batch.to_pylist()]


COMMAND = "import json, sys; print(json.load(sys.stdin)['url'].replace('sig=old', 'sig=new'))"


@pytest.mark.parametrize("kind", ["function", "command", "manifest"])
def test_a_task_that_cannot_ask_the_driver_asks_the_source(tmp_path, url, kind):
    """A function, a command, and a manifest that states more than the rows."""
    (tmp_path / "refresh.py").write_text(COMMAND)
    files = [{"url": f"{url}{name}?sig=new", "path": name, "size": len(name) + 1} for name in NAMES]
    (tmp_path / "m.json").write_text(json.dumps({"version": 1, "files": files}))
    sources: dict[str, dict[str, Any]] = {
        "function": {"function": lambda link, path: {"url": sign(link, path)}},
        "command": {"command": f"{sys.executable} {tmp_path / 'refresh.py'}"},
        "manifest": {"manifest": str(tmp_path / "m.json")},
    }
    source = LinkSource(None, None, None, Settings(), {})._replace(**sources[kind])
    assert {row["error"] for row in bring(tmp_path, url, source)} == {None}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            ValueError("secret"),
            "the function of renew raised ValueError; the log of the driver has its text",
        ),
        (None, "the function of renew returned a NoneType, and neither a URL nor a mapping with url"),
        ("ftp:x", "the function of renew returned what cannot be requested"),
        ({"url": "http://h/", "expires_at": "soon"}, "must be seconds since 1970"),
    ],
)
def test_a_function_that_has_no_link(tmp_path, url, answer, said, caplog):
    """Each row fails with the reason, without the words of the user's error, which are in the log."""

    def renew(link, path):
        if isinstance(answer, Exception):
            raise answer
        return answer

    source = LinkSource(renew, None, None, Settings(), {})
    (message,) = {row["error"] for row in bring(tmp_path, url, source)}
    assert said in message
    assert "secret" not in message
    logged = [record for record in caplog.records if record.exc_info]
    assert len(logged) == (MOST_LOGGED if isinstance(answer, Exception) else 0)
    assert {str(record.exc_info[1]) for record in logged} <= {"secret"}


def test_an_error_of_a_function_names_the_log_that_has_it(tmp_path, url, monkeypatch):
    """That of the executor, where a task calls the function."""
    monkeypatch.setattr("cfetch.plugins.spark.frames.renewing.TaskContext.get", lambda: "a task")
    source = LinkSource(lambda link, path: 1 / 0, None, None, Settings(), {})  # type: ignore[arg-type, return-value]
    (message,) = {row["error"] for row in bring(tmp_path, url, source)}
    assert "raised ZeroDivisionError; the log of the executor has its text" in message


def test_where_links_are_renewed(spark, monkeypatch):
    """At the driver; in the tasks where Spark encrypts or has no address; two sources are refused."""
    options = _choose_options("/x", Settings(), content=False, content_limit="1MiB")
    hub = open_frame_hub(spark)
    assert _choose_links(spark, None, options, hub) is None
    first, second = (_choose_links(spark, sign, options, open_frame_hub(spark)) for _ in range(2))
    assert isinstance(first, LinkAddress)
    assert second == first._replace(number=first.number + 1)  # one hub for all
    monkeypatch.setattr("cfetch.plugins.spark.frames.download.sends_encrypted", lambda spark: True)
    assert isinstance(_choose_links(spark, sign, options, hub), LinkSource)
    monkeypatch.setattr(job, "find_context", lambda spark: None)
    assert open_frame_hub(spark) is None
    assert _choose_links(spark, sign, options, None) == LinkSource(sign, None, None, Settings(to=("/x",)), {})
    refreshed = _choose_options("/x", Settings(refresh_command="x"), content=False, content_limit="1MiB")
    assert _choose_links(spark, None, refreshed, None) == LinkSource(None, "x", None, refreshed.settings, {})
    with pytest.raises(ConfigError, match="renew and setting refresh_command both renew links"):
        _choose_links(spark, sign, refreshed, None)
