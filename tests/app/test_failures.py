"""What is said and kept of entries that failed, and when they are no error."""

import json
import os
import stat
from pathlib import Path

import pytest

from cfetch.app.planned import pending
from cfetch.app.plans import list_plans
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, UsageError
from cfetch.show.live.closing import closing_lines
from tests.app.site import NAMES
from tests.engine.drive import tree

GONE = [NAMES[1], NAMES[3]]


@pytest.fixture
def broken(site, run):
    """A list of which two files are not there, with a secret in one link."""
    run.urls.write_text(run.urls.read_text().replace(GONE[0], f"{GONE[0]}?sig=CANARY"))
    kept = {name: site.files.pop(name) for name in GONE}
    return site, run, kept


def test_each_failure_names_its_link_line_and_answer(broken, tmp_path):
    """In the summary, the closing words and the metrics; no query is shown."""
    _, run, _ = broken
    run(metrics=str(tmp_path / "x.jsonl"))
    failures = sorted(run.summary.failures, key=lambda failure: failure.path)
    assert [(f.path, f.kind, f.http_status, f.line) for f in failures] == [
        (GONE[0], "refused", 404, 2),
        (GONE[1], "refused", 404, 4),
    ]
    assert failures[0].url.endswith("1.bin?<redacted 1 key>")
    lines = "\n".join(closing_lines(run.summary))
    examples = zip(GONE, ("1.bin?<redacted 1 key>, line 2", "3.bin, line 4"), strict=True)
    shown = [where for path, where in examples if f"such as {path} from http://127.0.0.1" in lines]
    assert "2 files: HTTP 404 (there is no such file; check the link)\n" in lines
    assert len(shown) == 1  # of the two, the one that failed first
    assert shown[0] in lines
    metrics = (tmp_path / "x.jsonl").read_text()
    records = [json.loads(line) for line in metrics.splitlines()[1:-1]]
    assert {record["path"]: record.get("line") for record in records} == {
        name: number if name in GONE else None for number, name in enumerate(NAMES, 1)
    }
    assert sum("url" in record for record in records) == 2
    assert "CANARY" not in metrics + lines


def test_the_manifest_of_failures_is_read_again(broken, tmp_path):
    """With the whole links, for its owner only; and it is empty once nothing fails."""
    site, run, kept = broken
    failures = tmp_path / "failed.jsonl"
    run(failures=str(failures))
    assert "CANARY" in failures.read_text()
    assert stat.S_IMODE(failures.stat().st_mode) == 0o600
    site.files |= kept
    run.urls = failures
    assert run(failures=str(tmp_path / "none.jsonl")) == dict.fromkeys(GONE, "done")
    assert tree(run.to) == site.files
    assert (tmp_path / "none.jsonl").read_text() == ""


@pytest.mark.parametrize(("most", "code"), [(1, 1), (2, 0), (0.39, 1), (0.4, 0), (0, 1)])
def test_so_many_failures_are_no_error(broken, most, code):
    """By number, or as a share of all files; the summary and the closing words say so."""
    _, run, _ = broken
    run(max_failures=most)
    assert (run.exit_code, run.summary.status, run.summary.files.failed) == (code, "partial", 2)
    *rest, verdict = closing_lines(run.summary)
    assert verdict.startswith("partly done" if code else "done: 3 of 5 files in place")
    assert ("as --max-failures allows" in "".join(rest)) is (code == 0)
    assert len(pending(Settings(to=(str(run.to),)))) == code


def test_a_plan_whose_failures_are_allowed_is_completed(broken):
    """Nothing waits for a run any more, and a later download makes a plan anew."""
    site, run, kept = broken
    run(max_failures=0.5)
    settings = Settings(to=(str(run.to),))
    assert [plan.state for plan in list_plans(settings).plans] == ["completed"]
    assert not list(run.to.glob(".cfetch/plans/*"))
    site.files |= kept
    assert run() == dict.fromkeys(NAMES, "skipped") | dict.fromkeys(GONE, "done")
    assert [plan.state for plan in list_plans(settings).plans] == ["completed", "completed"]


def test_a_file_in_place_of_the_manifest_of_failures_is_not_overwritten(run):
    """The manifest wants a file of that name."""
    with pytest.raises(Exception, match="where the manifest wants a file"):
        run(failures=str(run.to / NAMES[0]))


def make_fifo(path):
    os.mkfifo(path)


def make_device(path):
    path.symlink_to("/dev/null")


def identify(path):
    """All that a change would show; the time of the last look is none."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def write_notes(path):
    path.write_text("precious notes\n")


@pytest.mark.parametrize(("make", "said"), [
    (make_fifo, "a device, a pipe or a directory"), (make_device, "a device, a pipe or a directory"),
    (write_notes, "holds something else"), (None, "the manifest itself"),
])  # fmt: skip
def test_what_is_not_ours_is_not_replaced_by_failures(broken, tmp_path, make, said):
    """A list, notes, a pipe or a device of that name stay, and the run does not begin."""
    site, run, _ = broken
    path = run.urls
    if make is not None:
        path = tmp_path / "place"
        make(path)
    before = identify(path)
    with pytest.raises((ConfigError, UsageError), match=said):
        run(failures=str(path))
    assert (identify(path), site.asked) == (before, [])


def test_a_symlink_to_a_file_is_kept_and_its_file_replaced(broken, tmp_path):
    """As by any other tool."""
    _, run, _ = broken
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    run(failures=str(tmp_path / "circle"))
    (tmp_path / "link").symlink_to(tmp_path / "failed.jsonl")
    for _ in range(2):
        run(failures=str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "failed.jsonl").read_text().splitlines()) == len(GONE)


@pytest.mark.parametrize(("name", "accepts", "status"), [
    ("film.iso", False, "failed"), ("film.iso", True, "done"), ("page.html", False, "done"),
    ("no-ending", False, "done"),
])  # fmt: skip
def test_a_web_page_is_no_film(site, run, name, accepts, status):
    """A captive portal answers 200 to everything; the reason is told, and the type is in the metrics."""
    site.files = {name: b"<title>Hotel WiFi login</title>"}
    site.content_type = "text/html; charset=utf-8"
    run.urls.write_text(f"{site.url}{name}\n")
    assert run(accept_html=accepts) == {name: status}
    records = [json.loads(line) for line in Path(run.summary.metrics).read_text().splitlines()[1:-1]]
    assert records[0]["attempts"][-1]["content_type"] == "text/html; charset=utf-8"
    assert [failure.message.partition(":")[0] for failure in run.summary.failures] == (
        ["the server sends a web page (text/html) in its place"] if status == "failed" else []
    )


def test_a_stated_size_vouches_against_the_type(site, run):
    """Some servers call everything a page."""
    site.files = {"film.iso": b"x" * 10}
    site.content_type = "text/html"
    run.urls.write_text(json.dumps({"url": f"{site.url}film.iso", "size": 10}))
    assert run() == {"film.iso": "done"}


def test_nothing_where_bytes_were_stated_is_a_failure(site, run):
    """Whatever the server says of its length."""
    site.files = {"film.iso": b""}
    run.urls.write_text(json.dumps({"url": f"{site.url}film.iso", "size": 10}))
    assert run() == {"film.iso": "failed"}
    assert "0 bytes where the manifest says 10" in run.summary.failures[0].message


def test_only_paths_that_match_are_in_the_plan(broken):
    """The others are not asked for; another choice is another plan."""
    site, run, kept = broken
    site.files |= kept
    site.take_asked()
    assert run(include=("d/[1-3].bin",), exclude=["*1.bin"]).keys() == {"d/2.bin", "d/3.bin"}
    assert site.take_asked().keys() == {"d/2.bin", "d/3.bin"}
    with pytest.raises(UsageError, match="no path matches --include and --exclude"):
        run(include=("e/*",))
