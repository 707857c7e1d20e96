"""``cfetch get``: files by their URLs, with names and hashes of their own."""

import asyncio
import hashlib
import os
import time
from pathlib import Path

import pytest

from cfetch.app.get import prepare_get
from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.timeline.states import new_instant
from tests.cli.verbs import cfetch
from tests.conditions.runner import call
from tests.engine.drive import tree
from tests.wire.raw_server import RawServer, reply

BODY = b"x" * 40_000
SHA256 = hashlib.sha256(BODY).hexdigest()


def plan_of(*urls, to, **how):
    """Name, hash and place of each file that a call would fetch."""
    with prepare_get(urls, Settings(to=(str(to),)), env={}, **how) as prepared:
        entries = list(prepared.plan.entries())
        return [(e.path, e.digest and e.digest.hex) for e in entries], prepared.preview().destination


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("example.org/f.iso?sig=CANARY", "example.org/f.iso is no URL; write http://"),
        ("http:/u:CANARY@example.org/f", "http:/…@example.org/f is no URL; write http://"),
        ("u:CANARY@example.org/f", "^…@example.org/f is no URL; write http://"),
        ("doi:10.5281/zenodo.7", "run `cfetch download doi:10.5281/zenodo.7`"),
        ("{}", "run `cfetch download "),
    ],
)
def test_what_is_no_url_is_told_with_the_remedy(tmp_path, word, remedy):
    """A host's name without a scheme, and the file of a list."""
    (tmp_path / "urls.txt").touch()
    with (
        pytest.raises(UsageError, match=remedy),
        prepare_get([word.format(tmp_path / "urls.txt")], Settings(), env={}),
    ):
        pass


@pytest.mark.needs_plugins
async def test_a_file_under_a_name_of_its_own(tmp_path):
    """It is verified by the hash beside it; the summary is that of a download; a wrong hash is exit 1."""
    async with Origin({"x.bin": BODY, "x.bin.sha256": f"{SHA256} *x.bin\n".encode()}) as origin:
        url, to = origin.url + "x.bin", tmp_path / "to"
        words = ["get", url, "--sha256"]
        first = await cfetch(*words, "beside", "-o", "sub/y.bin", "--to", to, "--json")
        assert (first.code, first.document["files"]["done"]) == (0, 1)
        assert tree(to / "sub") == {"y.bin": BODY}
        wrong = await cfetch(*words, "0" * 64, "--to", to, "--json", "--max-attempts", "1")
        assert (wrong.code, wrong.document["failures"][0]["kind"]) == (1, "corrupt")
        assert not (to / "x.bin").exists()


async def test_a_finished_get_leaves_nothing_beside_its_file(tmp_path):
    """Also if it had failed before; the file itself says what it is, so a second run skips it."""
    to = tmp_path / "to"
    missing, found = reply(b"", status="404 Not Found"), reply(BODY, 'ETag: "1"')
    async with RawServer(missing) as server:
        words = [server.url + "x.bin", "--to", to, "--json", "--max-attempts", "1"]
        failed = await cfetch("get", *words)
        assert (failed.code, Path(failed.document["metrics"]).exists()) == (1, True)
        server.replies = (found,)
        other = await cfetch("get", server.url + "y.bin", *words[1:])
        assert (other.code, other.document["metrics"]) == (0, None)
        assert (to / ".cfetch/timeline").exists()  # the first one's plan is pending
        done = await cfetch("get", *words)
        assert (done.code, done.document["metrics"]) == (0, None)
        assert sorted(os.listdir(to)) == ["x.bin", "y.bin"]
        again = await cfetch("get", *words)
        assert (again.document["files"]["skipped"], sorted(os.listdir(to))) == (1, ["x.bin", "y.bin"])


@pytest.mark.parametrize("there", ["plans/{}", "guards/g", "timeline/{}.later.requested"])
async def test_a_get_beside_something_else_leaves_all_as_it_is(tmp_path, there):
    """The state may be another's: a run that begins, a follower, a later version."""
    kept = tmp_path / ".cfetch" / there.format(new_instant(time.time(), "abcd"))
    kept.mkdir(parents=True, mode=0o700)
    async with Origin({"x.bin": BODY}) as origin:
        done = await cfetch("get", origin.url + "x.bin", "--to", tmp_path, "--json")
    assert (done.code, kept.exists(), (tmp_path / ".cfetch/ballast").exists()) == (0, True, True)
    assert "plans" in there or Path(done.document["metrics"]).exists()


async def test_metrics_that_are_asked_for_stay(tmp_path):
    """They are where the user has said, and named in the summary."""
    metrics = tmp_path / "m.jsonl"
    async with Origin({"x.bin": BODY}) as origin:
        words = ["get", origin.url + "x.bin", "--to", tmp_path / "to", "--metrics", metrics, "--json"]
        done = await cfetch(*words)
    assert (done.document["metrics"], metrics.exists()) == (str(metrics), True)
    assert os.listdir(tmp_path / "to") == ["x.bin"]


async def test_a_large_file_is_continued_in_segments(tmp_path):
    """What an earlier attempt has brought is not asked for again: here the connection is reset half-way."""
    content = Synthetic("big.bin", 6 << 20)
    async with Origin({"big.bin": content}, {"big.bin": Fault(kind="reset", after_bytes=3 << 20)}) as origin:
        done = await cfetch("get", origin.url + "big.bin", "--to", tmp_path, "--json", "--quiet")
        fetched, wasted = done.document["bytes"]["fetched"], done.document["bytes"]["wasted"]
        assert (done.code, fetched - wasted) == (0, content.size_bytes)
        assert wasted < 1 << 20  # where segments meet, a piece may come twice
        assert len(origin.requests) > 1
    assert hashlib.sha256((tmp_path / "big.bin").read_bytes()).hexdigest() == content.sha256()


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_file_bears_the_time_of_its_server(tmp_path, processes):
    """Unless the user says otherwise; a second run takes it for good in both cases."""
    changed = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"
    async with RawServer(reply(BODY, changed)) as server:
        (tmp_path / "m.txt").write_text(f"{server.url}a\n{server.url}b\n")
        for flags in ([], ["--existing", "refetch", "--no-mtime"]):
            words = ["download", tmp_path / "m.txt", "--to", tmp_path, "--processes", processes, "--quiet"]
            ran = await asyncio.to_thread(call, *words, *flags)
            assert (ran.code, ran.said) == (0, "")
            times = {(tmp_path / name).stat().st_mtime == 784111777 for name in "ab"}
            assert times == {not flags}
        asked = len(server.heads)
        await asyncio.to_thread(call, *words)
        assert (asked, len(server.heads)) == (4, 4)


def test_names_and_places(tmp_path):
    """The last segment of the URL, or what --output says; only the file's own directory is written to."""
    a, b = "http://h.test/d/a%20b.zip?k=1", "http://h.test/b.zip"
    assert plan_of(a, b, to=tmp_path) == ([("a b.zip", None), ("b.zip", None)], str(tmp_path))
    assert plan_of(b, to=tmp_path, output="s/c", sha256="sha256:" + "AB" * 32) == (
        [("c", "ab" * 32)],
        f"{tmp_path}/s",
    )


@pytest.mark.parametrize(
    ("urls", "how", "message"),
    [
        (["http://h.test/"], {}, "gives the file no name: .* -o FILE"),
        (["http://h.test/?sig=CANARY", "http://h.test/a"], {}, "^(?!.*CANARY).* -o FILE"),
        (
            ["sftp://h.test/a"],
            {},
            "the list of URLs has 1 fault; .*\n  the list of URLs: url: its scheme is sftp; scp and rsync",
        ),
        (["http://h.test/a", "http://h.test/b"], {"output": "x"}, "--output is for one file"),
        (["http://h.test/a", "http://h.test/b"], {"sha256": "0" * 64}, "--sha256 HEX is for one file"),
        (["http://h.test/a"], {"sha256": "12"}, "64 hexadecimal digits, or the word beside"),
        (
            ["http://h.test/a"],
            {"sha256": "sha256-" + "A" * 43 + "="},
            "digits; .* its base64 .*, or the word beside",
        ),
        (["s3://bucket/d/"], {"output": "x"}, "--output is for one file"),
        (["http://h.test/a"], {"output": "-"}, "standard output is not supported"),
        (["http://h.test/a"], {"output": "b/.cfetch"}, "state directory"),
        (["http://h.test/a"], {"output": ".cfetch/x"}, "state directory"),
    ],
)
def test_what_cannot_be_had(tmp_path, urls, how, message):
    """The message says what to do instead, and nothing is fetched."""
    with pytest.raises(UsageError, match=message):
        plan_of(*urls, to=tmp_path, **how)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SHA256.upper(), True),
        (f"SHA256 (a.zip) = {SHA256}\n", True),
        (f"{'0' * 64}  other\n{SHA256}  ./dist/a.zip\n", True),
        (f"{SHA256}  renamed.zip\n", True),
        (f"{'0' * 64}  b\n{'1' * 64}  c\n", False),
        ("<html>", False),
        (f"{'0' * 32}  a.zip\n", False),
    ],
)
@pytest.mark.needs_plugins
async def test_the_hash_beside_a_file(tmp_path, text, found):
    """As sha256sum, BSD tools or people write it; of several lines the one with the file's name."""
    async with Origin({"a.zip.sha256": text.encode()}) as origin:
        asked = asyncio.to_thread(plan_of, f"{origin.url}a.zip?download=1", to=tmp_path, sha256="beside")
        if found:
            assert (await asked)[0] == [("a.zip", SHA256)]
        else:
            with pytest.raises(UsageError, match="state the hash: --sha256 HEX"):
                await asked
        assert origin.requests[0].query == "download=1"


async def test_a_signed_url_has_no_hash_beside_it(tmp_path):
    """Its signature is for one object."""
    url = "http://h.test/a?AWSAccessKeyId=a&Signature=CANARY&Expires=1"
    with pytest.raises(UsageError, match=r"^(?!.*CANARY).*signed for one file"):
        plan_of(url, to=tmp_path, sha256="beside")


async def test_a_url_that_is_given_as_a_verb():
    """The message names the verb, and holds nothing of the URL."""
    done = await cfetch("https://h.test/x?sig=CANARY")
    assert (done.code, "cfetch get URL" in done.err, "CANARY" in done.err) == (2, True, False)


async def test_the_output_may_be_a_directory(tmp_path):
    """With a slash at its end, or because it is there; several files may go into it."""
    async with Origin({"x.bin": BODY, "y.bin": BODY}) as origin:
        there = tmp_path / "there"
        there.mkdir()
        assert (await cfetch("get", origin.url + "x.bin", "-o", there)).code == 0
        assert (await cfetch("get", origin.url + "y.bin", "--to", tmp_path, "-o", "new/")).code == 0
        assert (await cfetch("get", origin.url + "x.bin", origin.url + "y.bin", "-o", there)).code == 0
        assert tree(there) == {"x.bin": BODY, "y.bin": BODY}
        (there / "y.bin").unlink()
        assert (tree(there), tree(tmp_path / "new")) == ({"x.bin": BODY}, {"y.bin": BODY})
