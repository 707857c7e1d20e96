"""Entries whose names clash: the first and all others come, the later one fails, and every verb agrees."""

import asyncio
import json

import pytest

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest.entry import SafePath
from cfetch.manifest.folding import Folding
from cfetch.plugins.lab.bench.content import Content, Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.run.catalogue import Catalogue, Own
from cfetch.run.volumes import Volumes
from cfetch.storage.directory import Identity
from tests.conditions.runner import call
from tests.engine.drive import tree
from tests.tasks.scene import served

FILES = {f"s/{n}": Synthetic(f"s/{n}", 100) for n in range(6)}
PATHS = ("a", "b", "a", "d", "d/x", "c")  # of the files, in the order of their numbers
FIRST = (0, 1, 4, 5)  # those that come: of a file and a directory the directory's
CLASHING = {"a", "d"}


@pytest.fixture
def origin():
    """A server whose files have one size, so that only their bytes tell them apart."""
    with served(FILES) as server:
        yield server


def rows_of(origin, paths=PATHS, numbers=range(6), **more):
    return [{"url": f"{origin.url}s/{n}", "path": paths[n], "size": 100, **more} for n in numbers]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def bytes_of(number):
    return bytes(FILES[f"s/{number}"].read(0, 100))


BROUGHT = {PATHS[n]: bytes_of(n) for n in FIRST}


def summary_of(ran):
    assert "Traceback" not in ran.err
    return json.loads(ran.out)


@pytest.mark.parametrize(
    "ways",
    [(), ("--processes", 2), ("volumes",), ("--durability", "crash"), ("plan",), ("plan", "--together")],
)
def test_only_the_later_of_two_entries_with_one_name_fails(origin, tmp_path, ways):
    """In every way to run a plan, at once and again; its message names both and what settles it."""
    rows = write(tmp_path / "l.jsonl", rows_of(origin))
    to = ["--to", tmp_path / "to"]
    if ways == ("volumes",):
        to, ways = [*to, "--to", tmp_path / "more"], ()
    words = ["download", rows, *to, "--json", *ways]
    if ways[:1] == ("plan",):
        assert call("plan", "schedule", rows, *to).code == 0
        words = ["plan", "run", "--all", *to, "--json", *ways[1:]]
    for done, skipped in ((4, 0), (0, 4)):
        ran = call(*words)
        summary = summary_of(ran)
        [summary] = summary.get("summaries", [summary])
        assert ran.code == 1, ran.err
        files = summary["files"]
        assert (files["done"], files["skipped"], files["failed"]) == (done, skipped, 2)
        assert {(each["path"], each["kind"]) for each in summary["failures"]} == {
            (path, "clash") for path in CLASHING
        }
        messages = " ".join(each["message"] for each in summary["failures"])
        assert "'a' is stated twice with another url, size or hash: lines 1 and 3;" in messages
        assert "'d' is a file, and a directory for 'd/x': lines 4 and 5;" in messages
        assert messages.count("--clash rename or --clash skip") == 2
        assert tree(tmp_path / "to") | tree(tmp_path / "more") == BROUGHT
    assert {request.path for request in origin.requests} == {f"s/{n}" for n in FIRST}


def test_a_batch_with_a_name_waits_for_all_of_its_files(origin, tmp_path):
    """A clash holds it back as every other failure does; other batches come."""
    rows = rows_of(origin, numbers=(0, 2, 5), batch="one") + rows_of(origin, numbers=(1,), batch="two")
    ran = call("download", write(tmp_path / "l.jsonl", rows), "--to", tmp_path / "to", "--json")
    kinds = {each["kind"] for each in summary_of(ran)["failures"]}
    assert (ran.code, kinds) == (1, {"clash", "batch"})
    assert tree(tmp_path / "to") == {"b": bytes_of(1)}


@pytest.mark.parametrize("by", ["size", "sha256"])
def test_a_file_under_the_name_is_the_others(origin, tmp_path, by):
    """Neither a preview, nor a run, nor a check takes it for the entry that clashes."""
    stated = rows_of(origin)
    if by == "sha256":
        stated = [row | {"sha256": FILES[f"s/{n}"].sha256()} for n, row in enumerate(stated)]
    rows, to = write(tmp_path / "l.jsonl", stated), tmp_path / "to"
    to.mkdir()
    (to / "a").write_bytes(bytes_of(0))  # another tool's, so that only its size speaks for it
    looked = summary_of(call("download", rows, "--to", to, "--dry-run", "--json"))
    assert looked["in_place"] == 1
    files = summary_of(call("download", rows, "--to", to, "--json"))["files"]
    assert (files["done"], files["skipped"], files["failed"]) == (3, 1, 2)
    looked = summary_of(call("download", rows, "--to", to, "--dry-run", "--json"))
    assert (looked["files"], looked["in_place"]) == (6, 4)
    assert "files that clash with others and fail: 2, as 'a';" in " ".join(looked["notes"])
    verified = call("verify", rows, "--to", to, "--json")
    assert (verified.code, summary_of(verified)["found"]) == (1, {"clash": 2})
    assert summary_of(verified)["good"] == {by: 4}
    checked = call("manifest", "check", rows, "--json")
    assert (checked.code, summary_of(checked)["clashing"]) == (1, 2)


def test_room_is_not_needed_for_what_is_not_brought(origin, tmp_path, monkeypatch):
    """A huge file that clashes with a small one does not keep all others away."""
    rows = rows_of(origin)
    rows[2]["size"] = 1 << 50
    monkeypatch.setattr(Volumes, "free_bytes", lambda _: 1 << 30)
    with prepare(str(write(tmp_path / "l.jsonl", rows)), Settings(to=(str(tmp_path / "to"),)), env={}) as it:
        assert len(it.plan) == 6


def test_the_list_of_failures_never_replaces_the_first_file(origin, tmp_path):
    """Run as it is it fails again; with another name the file comes."""
    rows, to, failed = write(tmp_path / "l.jsonl", rows_of(origin)), tmp_path / "to", tmp_path / "f.jsonl"
    call("download", rows, "--to", to, "--quiet", "--failures", failed)
    again = call("download", failed, "--to", to, "--json")
    assert (again.code, summary_of(again)["files"]["failed"]) == (1, 2)
    assert tree(to) == BROUGHT
    stated = [json.loads(line) for line in failed.read_text().splitlines()]
    assert [(row["url"][-1], row["path"]) for row in stated if "url" in row] == [
        ("0", "a"),
        ("2", "a"),
        ("3", "d"),
        ("4", "d/x"),
    ]
    for row in stated:
        row["path"] = {"2": "other", "3": "file"}.get(row["url"][-1], row["path"])
    ran = call("download", write(failed, stated), "--to", to, "--json")
    assert (ran.code, summary_of(ran)["files"]["done"]) == (0, 2)
    assert tree(to) == BROUGHT | {"other": bytes_of(2), "file": bytes_of(3)}


def test_metrics_know_which_of_two_entries_failed(origin, tmp_path):
    """``--failed-from`` tries them again, and brings them once their names are settled."""
    rows, to, metrics = write(tmp_path / "l.jsonl", rows_of(origin)), tmp_path / "to", tmp_path / "m.jsonl"
    call("download", rows, "--to", to, "--quiet", "--metrics", metrics)
    words = ("download", rows, "--to", to, "--failed-from", metrics, "--json")
    again = summary_of(call(*words))
    assert (again["exit_code"], again["files"]["failed"]) == (1, 2)
    ran = call(*words, "--clash", "rename")
    assert (ran.code, summary_of(ran)["files"]["done"]) == (0, 2)
    assert tree(to) == BROUGHT | {"a-2": bytes_of(2), "d-2": bytes_of(3)}


def test_a_sync_brings_the_first_and_never_touches_it_for_the_other(origin, tmp_path):
    """Again and again, also with ``--delete``, which deletes nothing while something is missing."""
    to, list_of = tmp_path / "to", tmp_path / "l.jsonl"
    rows = [row | {"sha256": FILES[f"s/{n}"].sha256()} for n, row in enumerate(rows_of(origin))]
    for later, done in (("0", 4), ("0", 0), ("1", 0)):
        rows[2]["sha256"] = later * 64
        ran = call("sync", write(list_of, rows), "--to", to, "--delete", "--json")
        assert (ran.code, summary_of(ran)["files"]["done"]) == (1, done), ran.err
        assert summary_of(ran)["sync"]["changed"] == 0
        assert tree(to) == BROUGHT
    assert {request.path for request in origin.requests} == {f"s/{n}" for n in FIRST}
    rows[2]["sha256"] = FILES["s/2"].sha256()
    ran = call("sync", write(list_of, rows), "--to", to, "--clash", "rename", "--json")
    assert (ran.code, summary_of(ran)["files"]["done"]) == (0, 2)


async def test_a_prefix_whose_names_clash_is_not_fetched_again(bucket, tmp_path, monkeypatch):
    """On a file system where the later name is the file of the first; here it is a link to it."""
    monkeypatch.setattr(Volumes, "find_folding", lambda _: Folding(ends="."))
    to = tmp_path / "to"
    for key, body in {"a": b"1111", "a.": b"2222", "c": b"3"}.items():
        bucket.put(key, body)
    for done in (2, 0, 0):
        ran = await asyncio.to_thread(call, "sync", f"{bucket.url}/", "--to", to, "--json")
        assert (ran.code, summary_of(ran)["files"]["done"]) == (1, done), ran.err
        (to / "a.").unlink(missing_ok=True)
        (to / "a.").hardlink_to(to / "a")
    assert (to / "a").read_bytes() == b"1111"


def test_a_new_name_never_replaces_a_file_of_the_users(origin, tmp_path):
    """Nobody has stated it; the entry fails until that file is away, and then it may be brought again."""
    rows = write(tmp_path / "l.jsonl", rows_of(origin, paths=("a", "a"), numbers=range(2)))
    to = tmp_path / "to"
    to.mkdir()
    mine = to / "a-2"
    mine.write_bytes(b"mine")
    words = ("download", rows, "--to", to, "--clash", "rename", "--json")
    ran = call(*words)
    [failure] = summary_of(ran)["failures"]
    assert (ran.code, failure["kind"], mine.read_bytes()) == (1, "blocked", b"mine")
    assert "--clash rename, chose the name a-2" in failure["message"]
    mine.unlink()
    assert call(*words).code == 0
    mine.write_bytes(b"")  # cfetch's own file, cut
    assert (call(*words).code, tree(to)) == (0, {"a": bytes_of(0), "a-2": bytes_of(1)})


def test_a_sync_settles_names_that_its_destination_folds(origin, tmp_path, monkeypatch):
    """``--clash`` counts there too, and the folded file is not fetched again."""
    monkeypatch.setattr(Volumes, "find_folding", lambda _: Folding(ends="."))
    list_of = write(tmp_path / "l.jsonl", rows_of(origin, paths=("a", "a.", "c"), numbers=range(3)))
    to = tmp_path / "to"
    for done in (2, 0):
        ran = call("sync", list_of, "--to", to, "--json")
        assert (ran.code, summary_of(ran)["files"]["done"]) == (1, done), ran.err
    ran = call("sync", list_of, "--to", to, "--json", "--clash", "rename")
    assert (ran.code, sorted(tree(to))) == (0, ["a", "a.-2", "c"])


def test_a_name_that_clashes_is_neither_new_nor_changed_nor_gone(tmp_path):
    """The catalogue of a sync leaves the file of the other entry alone, whatever names it folds."""
    with Catalogue(tmp_path / "c.sqlite") as catalogue:
        for path in (SafePath("a"), SafePath("a.")):
            catalogue.add_listed(path, "1")
            catalogue.enter(path, Own(path, "v", Identity(1, 2, 3, 4)))
    with Catalogue(tmp_path / "c.sqlite") as catalogue:
        for listed in ("a", "a.", "n"):
            catalogue.add_listed(listed, "2")
        catalogue.note_clashes(["a.", "n"])
        catalogue.note_unproven()
        assert [*catalogue.find_changed()] == ["a"]
        assert [*catalogue.find_new(), *catalogue.find_gone()] == []


def test_of_two_links_with_one_name_the_first_is_got(origin, tmp_path):
    """The other fails, unless another way is named."""
    urls = [f"{origin.url}s/0?{n}" for n in range(2)]
    ran = call("get", *urls, "--to", tmp_path, "--json")
    assert (ran.code, summary_of(ran)["failures"][0]["kind"], list(tree(tmp_path))) == (1, "clash", ["0"])
    assert call("get", *urls, "--to", tmp_path, "--clash", "rename").code == 0  # as its message says
    assert sorted(tree(tmp_path)) == ["0", "0-2"]


def test_all_links_of_a_list_may_have_one_name(origin, tmp_path):
    """Then one file comes, and the closing lines name the cause once, with the option that settles it."""
    rows = [{"url": f"{origin.url}s/{n}", "path": "same"} for n in range(6)]
    ran = call("download", write(tmp_path / "l.jsonl", rows), "--to", tmp_path / "to")
    assert (ran.code, tree(tmp_path / "to")) == (1, {"same": bytes_of(0)})
    assert "5 files: 'same' is stated twice" in ran.err
    assert "say --clash rename or --clash skip" in ran.err


def test_faulty_rows_that_are_skipped_include_those_that_clash(origin, tmp_path):
    """They are listed, as before, and no failure; ``verify`` agrees."""
    rows, to = write(tmp_path / "l.jsonl", rows_of(origin)), tmp_path / "to"
    words = ("--to", to, "--bad-rows", "skip")
    assert call("download", rows, *words, "--quiet").code == 0
    assert tree(to) == BROUGHT
    assert call("verify", rows, *words).code == 0


def test_the_link_of_a_renamed_file_is_renewed(tmp_path, monkeypatch):
    """The list is read again by what the destination does with names, or nobody would know the new name."""
    monkeypatch.setattr(Volumes, "find_folding", lambda _: Folding(case=True))
    versions = iter(range(1, 9))

    class Renewing(dict[str, Content | bytes]):
        """Another link for the second file at each reading of the list."""

        def get(self, key, default=None):
            if key != "l.jsonl":
                return super().get(key, default)
            rows = [{"url": "s/0", "path": "a"}, {"url": f"s/1?n={next(versions)}", "path": "A"}]
            return "".join(json.dumps(row) + "\n" for row in rows).encode()

    with served(Renewing(FILES), {"s/1": Fault(kind="status", status=403)}) as server:
        ran = call("download", f"{server.url}l.jsonl", "--to", tmp_path, "--clash", "rename", "--json")
    assert ran.code == 0, ran.err
    assert tree(tmp_path) == {"a": bytes_of(0), "A-2": bytes_of(1)}


def test_an_unknown_way_is_refused(tmp_path):
    """With the ways that there are."""
    with pytest.raises(ConfigError, match="fail, rename"):
        Settings(to=(str(tmp_path),), clash="other")
