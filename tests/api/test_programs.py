"""Ten programs that a data scientist writes, as they would be written without reading the manual twice."""

import pydoc
import re
from pathlib import Path

import pandas as pd
import pytest

import cfetch
from tests.api.slow_site import BODY
from tests.engine.drive import tree


def test_a_path_to_open(site, tmp_path):
    """Whoever gets one file wants to open it."""
    with cfetch.get(site.url("table.csv"), to=tmp_path).open("rb") as file:
        assert file.read() == BODY


def test_a_token_in_the_headers(site, tmp_path):
    """As requests and httpx take it."""
    cfetch.download([site.url("a"), site.url("b")], to=tmp_path, headers={"Authorization": "Bearer x"})
    assert {asked["authorization"] for asked in site.headers} == {"Bearer x"}


def test_names_for_urls(site, tmp_path):
    """A mapping says how each file is called; it was taken before, and the names were ignored."""
    cfetch.download({site.url("a"): "x/one.bin", site.url("b"): Path("two.bin")}, to=tmp_path)
    assert tree(tmp_path).keys() == {"x/one.bin", "two.bin"}
    with pytest.raises(cfetch.UsageError, match="this mapping is one entry; put it into a list"):
        cfetch.download({"url": site.url("a")}, to=tmp_path)


def test_failures_are_tried_again(site, tmp_path):
    """Each carries its entry with the whole link, which no text shows."""
    missing = cfetch.Entry(url=site.url("missing"), path="m", headers={"X-Key": "CANARY"})
    with pytest.raises(cfetch.Incomplete) as raised:
        cfetch.download([missing, site.url("a")], to=tmp_path)
    (failure,) = raised.value.summary.failures
    assert failure.entry == missing
    assert "CANARY" not in repr(failure) + str(raised.value)
    with pytest.raises(cfetch.Incomplete):
        cfetch.download([failure.entry], to=tmp_path)
    assert [asked["x-key"] for asked in site.headers if "x-key" in asked] == ["CANARY", "CANARY"]


def test_some_may_be_missing(site, tmp_path):
    """Web data has dead links; a share is a text as on the command line."""
    summary = cfetch.download(
        [site.url("a"), site.url("missing")], to=tmp_path, max_failures="50%", retries=0
    )
    assert [failure.path for failure in summary.failures] == ["missing"]
    assert summary.failures[0].entry.url == site.url("missing")


def test_gentle_to_a_small_server(site, tmp_path):
    """The usual keywords are in the signature; others stand in the settings, and a keyword counts more."""
    settings = cfetch.Settings(concurrency=9, retry_budget="1m", header=["X-A: 1"], keep_columns=["id"])
    cfetch.download(
        [site.url("a")], to=tmp_path, concurrency=2, limit_rate="10M", timeout=5, settings=settings
    )
    header = next(iter((tmp_path / ".cfetch/metrics").glob("*.jsonl"))).read_text().splitlines()[0]
    for words in (
        '"concurrency":2',
        '"max_concurrency":2',
        '"limit_rate":10485760',
        '"stall_timeout":5',
        '"retry_budget":60.0',
    ):
        assert words in header
    assert site.headers[-1]["x-a"] == "1"


def test_a_bar_of_tqdm(site, tmp_path):
    """Progress has the totals; here a stand-in keeps what tqdm would show."""
    shown = []

    def update(event):
        if isinstance(event, cfetch.Progress):
            shown.append((event.bytes_in_hand, event.bytes_total, event.files))

    cfetch.download([site.url("a"), site.url("b")], to=tmp_path, on_event=update)
    assert shown[0] == (0, None, 2)
    assert shown[-1] == (2 * len(BODY), 2 * len(BODY), 2)


def test_a_bar_without_any_code(site, tmp_path, capfd):
    """``progress=True`` shows what the command shows; without a terminal these are lines."""
    cfetch.get(site.url("a"), to=tmp_path, progress=True)
    assert "done: 1 of 1 file in place" in capfd.readouterr().err


def test_a_column_of_a_frame(site, tmp_path):
    """The paths come back in the order of the URLs, to become a column again."""
    frame = pd.DataFrame({"url": [site.url("b"), site.url("a")]})
    frame["path"] = cfetch.get(frame["url"], to=tmp_path)
    assert [path.name for path in frame["path"]] == ["b", "a"]


def test_a_mistake_is_explained_in_the_words_of_python(site, tmp_path):
    """No flag of the command line, no command of the shell."""
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><html><body>nothing</body></html>")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 9)
    mistakes = [
        lambda: cfetch.download([], to=tmp_path),
        lambda: cfetch.download(tmp_path / "noise", to=tmp_path),
        lambda: cfetch.get("data.example.org/a", to=tmp_path),
        lambda: cfetch.get([site.url("a"), site.url("b")], to=tmp_path, sha256="0" * 64),
        lambda: cfetch.get(site.url("a"), to=tmp_path, retries=-1),
        lambda: cfetch.get(site.url("a"), to="s3://bucket/x"),
        lambda: cfetch.download([site.url("a"), "http://h.test/b"], to=tmp_path, headers={"A": "b"}),
    ]
    for mistake in mistakes:
        with pytest.raises(cfetch.UsageError) as raised:
            mistake()
        assert re.search(r"(?<!\w)--?[a-z]|`cfetch ", str(raised.value)) is None, str(raised.value)


def test_help_is_readable():
    """Plain types, what each option does, and no address of a function."""
    for value in (cfetch.Settings, cfetch.download, cfetch.get, cfetch.Progress):
        text = pydoc.render_doc(value, renderer=pydoc.TextDoc())
        assert " at 0x" not in text
        assert "Annotated" not in text
    options = cfetch.Settings.__doc__ or ""
    assert "    retry_budget = 300.0: from 0s to 24h\n        Time per file in which" in options
    assert " --" not in options
