"""A frozen plan: sealed, exact, and free of collisions."""

import errno
import io
import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import LocalFault, ManifestError
from cfetch.base.records import Summary
from cfetch.base.secret import SecretUrl
from cfetch.manifest.checked_entries import freeze_entries
from cfetch.manifest.collisions import PathIndex
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.folding import KEEPS_NAMES, MAY_FOLD, Folding
from cfetch.manifest.plan import load_plan
from cfetch.manifest.plan_file import AHEAD_BYTES, PlanFile
from cfetch.manifest.settled_clashes import number_name
from cfetch.show.causes import group_by_cause
from tests.manifest.frozen import freeze

SIGNED = "?sv=2024-11-04&sr=b&se=2027&sig="  # a complete signature: it makes no other object
SHA_A, SHA_B = "a" * 64, "b" * 64


def document(*files):
    return '{"files":[\n' + ",\n".join(json.dumps(file) for file in files) + "\n]}"


def entry(path, **fields):
    return {"url": f"http://h/{len(path)}", "path": path, **fields}


def test_columns(frozen):
    """Sizes, hosts, totals and the earliest expiry are there without reading an entry."""
    plan = frozen(
        document(
            {"url": "http://B/a", "size": 5, "expires_at": 200},
            {"url": "http://a:81/b?x@y/z", "expires_at": 100},
            {"url": "http://b?q=/c", "path": "c", "size": 0},
        )
    )
    assert list(plan.sizes) == [5, -1, 0]
    assert plan.hosts == ("b", "a:81")
    assert list(plan.host_of) == [0, 1, 0]
    assert (plan.total_bytes, plan.sizes_unknown, plan.totals.expires_at) == (5, 1, 100.0)
    assert [plan.hosts[plan.host_of[i]] for i in range(3)] == [plan.entry(i).url.host() for i in range(3)]


def test_ranges_of_one_url_are_files_of_their_own(frozen):
    """Only the same range of the same path is a repetition, and another range is another manifest."""
    ranges = [
        {"url": "http://h/a", "path": p, "offset": start, "length": 5} for p, start in (("b", 0), ("c", 9))
    ]
    plan = frozen(document(*ranges, ranges[0]))
    assert [(plan.entry(i).range_start, plan.sizes[i]) for i in range(2)] == [(0, 5), (9, 5)]
    assert (len(plan), plan.merged) == (2, 1)
    assert frozen(document(ranges[0], {**ranges[1], "offset": 8})).digest != plan.digest
    other = frozen(document(*ranges, {**ranges[0], "offset": 1}))
    assert "stated twice" in other.entry(2).clash.message


def test_entries_are_numbered(frozen):
    """An entry's id is its index, and there is none beyond the last."""
    plan = frozen(document(entry("a"), entry("b")))
    assert [plan.entry(i).id for i in range(2)] == [0, 1]
    for index in (-1, 2):
        with pytest.raises(IndexError, match="2 entries"):
            plan.entry(index)


def test_entries_in_their_order_are_read_in_blocks(frozen, monkeypatch):
    """In any order each is itself; in the plan's order one read serves hundreds."""
    plan = frozen(document(*(entry(f"{number:06}", size=number) for number in range(5000))))
    reads: list[int] = []
    real = os.pread

    def pread(descriptor, size_bytes, offset):
        reads.append(size_bytes)
        return real(descriptor, size_bytes, offset)

    monkeypatch.setattr(os, "pread", pread)
    assert [made.size_bytes for made in plan.entries()] == list(range(5000))
    assert len(reads) < 20
    assert max(reads) == AHEAD_BYTES
    reads.clear()
    backwards = [4999, 0, 7, 4998, 8, 6, 4999]
    assert [plan.entry(index).size_bytes for index in backwards] == backwards
    assert sum(reads) < 8 * 1024 + 2 * AHEAD_BYTES


def test_sealed(tmp_path):
    """The plan's file is readable by its owner alone, and stays when the plan is closed."""
    manifest = tmp_path / "m.txt"
    manifest.write_text("http://h/a?sig=1\n")
    with manifest.open("rb") as file, freeze(file, name="m.txt", directory=tmp_path):
        pass
    (sealed,) = tmp_path.glob("*.msgpack*")
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["nope\n", "http://h/a?1\nhttp://h/a?2\nnope\n", "http://h/a\nhttp://h/a\nnope\n"]
)
def test_faults_leave_nothing(tmp_path, text):
    """A manifest with faults leaves no file behind."""
    manifest = tmp_path / "m.txt"
    manifest.write_text(text)
    plans = tmp_path / "plans"
    plans.mkdir()
    with manifest.open("rb") as file, pytest.raises(ManifestError):
        freeze(file, name="m.txt", directory=plans)
    assert list(plans.iterdir()) == []


def test_plan_that_cannot_be_written(tmp_path, frozen):
    """A missing directory, or one that holds a plan, is a local fault that names it; the old plan stays."""
    manifest = tmp_path / "m.txt"
    manifest.write_text("http://h/a\n")
    with manifest.open("rb") as file:
        with pytest.raises(LocalFault, match=r"the plan to .*missing/entries\.msgpack: No such file"):
            freeze(file, name="m.txt", directory=tmp_path / "missing")
        with freeze(file, name="m.txt", directory=tmp_path) as plan:
            with pytest.raises(LocalFault, match="exists"):
                freeze(file, name="m.txt", directory=tmp_path)
            assert plan.entry(0).path == "a"
        assert (tmp_path / "entries.msgpack").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk(tmp_path, monkeypatch):
    """A full disk is a local fault that names the plan's file."""
    full = os.open("/dev/full", os.O_RDWR)
    monkeypatch.setattr(os, "open", lambda *_: full)
    with pytest.raises(LocalFault, match="No space left"):
        freeze(io.BytesIO(b"http://h/a\n"), name="m.txt", directory=tmp_path)


def test_errors_of_the_service_are_passed_on(tmp_path):
    """What goes wrong while asking for further chunks is not taken for a fault of the disk."""

    def fetch_chunk(_):
        raise ConnectionResetError

    link = {"chunk_index": 0, "external_link": "http://h/0", "next_chunk_index": 1}
    reply = json.dumps({"external_links": [link]}).encode()
    with pytest.raises(ConnectionResetError):
        freeze(io.BytesIO(reply), name="m", directory=tmp_path, fetch_chunk=fetch_chunk)
    assert list(tmp_path.iterdir()) == []


def test_identical_entries_are_merged(frozen, tmp_path):
    """Entries alike in url, size and hash are one; the rest keep their order and get new numbers."""
    twin = entry("a", size=1, sha256=SHA_A)
    plan = frozen(document(twin, entry("b/x"), {**twin, "batch": "other"}, entry("c"), twin))
    assert plan.merged == 2
    assert [(plan.entry(i).id, plan.entry(i).path) for i in range(len(plan))] == [
        (0, "a"),
        (1, "b/x"),
        (2, "c"),
    ]
    assert (plan.total_bytes, list(plan.sizes), plan.find("c")) == (1, [1, -1, -1], 2)
    assert plan.digest == frozen(document(twin, entry("b/x"), entry("c"))).digest
    assert [path.name for path in tmp_path.glob("plan0/*")] == ["entries.msgpack"]


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://h/other", "sha256": None},
        {"size": 2},
        {"size": None},
        {"sha256": SHA_B},
        {"sha256": None},
    ],
)
def test_one_path_for_two_files(clashes_of, change):
    """The later of two entries for one path that differ is to fail, and its message names both lines."""
    twin = entry("a", size=1, sha256=SHA_A)
    [(line, message)] = clashes_of(document(twin, entry("b"), {**twin, **change}))
    assert line == 4
    assert "'a' is stated twice" in message
    assert "lines 2 and 4" in message
    assert message.endswith("--clash rename or --clash skip")


@pytest.mark.parametrize(
    ("one", "two", "case", "forms"),
    [
        ("A/b", "a/B", True, False),
        ("caf\u00e9", "cafe\u0301", False, True),
        ("STRASSE", "straße", True, False),
        ("CAFE\u0301", "caf\u00e9", True, True),
    ],
)
def test_spelling(clashes_of, one, two, case, forms):
    """Of names that are one file at the destination the later one fails; elsewhere they are two files."""
    rows = document(entry(one), entry(two))
    [(line, message)] = clashes_of(rows, folding=Folding(case=case, forms=forms))
    assert line == 3
    assert "differ only in case or Unicode form: lines 2 and 3; rename one" in message
    for other in (KEEPS_NAMES, Folding(case=not case, forms=not forms)):
        assert clashes_of(rows, folding=other) == []


@pytest.mark.parametrize(
    ("name_by", "left"), [("last", ["a"]), ("header", ["a", "b"]), ("final-url", ["a", "b"])]
)
def test_paths_are_chosen_only_once_their_names_are_known(frozen, name_by, left):
    """Where a server is to be asked for names, all entries go on until it has stated them."""
    rows = document(entry("a"), entry("b"))
    plan = frozen(rows, options=ReadingOptions(name_by=name_by, include=("a",)))
    assert [each.path for each in plan.entries()] == left


def test_rows_that_clash_are_left_out_if_faulty_rows_are_skipped(frozen):
    """Of two names the later one; of a file and a directory the file, as the directory may hold others."""
    rows = document(*map(entry, ["a", "b/x", "A", "b", "b/y", "c"]))
    told: list[tuple[int, str]] = []
    plan = frozen(
        rows,
        folding=MAY_FOLD,
        options=ReadingOptions(bad_rows="skip"),
        report=lambda line, why: told.append((line, why.partition(":")[0])),
    )
    assert [each.path for each in plan.entries()] == ["a", "b/x", "b/y", "c"]
    assert (plan.skipped, plan.merged) == (2, 0)
    assert sorted(told) == [
        (4, "'a' and 'A' differ only in case or Unicode form"),
        (5, "'b' is a file, and a directory for 'b/x'"),
    ]


def test_a_file_stands_beside_a_directory_whose_name_differs_in_its_letters(frozen):
    """Where the destination keeps them apart; the file with the directory's own name is left out."""
    rows = document(*map(entry, ["d/x", "D/x", "D", "E", "e/x"]))
    told: list[int] = []
    options = ReadingOptions(bad_rows="skip")
    plan = frozen(rows, options=options, report=lambda line, _: told.append(line))
    assert [each.path for each in plan.entries()] == ["d/x", "D/x", "E", "e/x"]
    assert told == [4]


CLASHING = document(
    *map(entry, ["a", "b/x", "A", "b", "b/y"]),
    *({"url": f"http://h/{place}/f.tar.gz"} for place in "pqqr"),
    {"url": "http://h/s/f-3.tar.gz"},
)


def test_files_that_clash_get_other_names(frozen):
    """A number behind the stem, the first that no file has; a repeated row is still one file."""
    plan = frozen(CLASHING, folding=MAY_FOLD, options=ReadingOptions(clash="rename"))
    names = ["a", "b/x", "A-2", "b-2", "b/y", "f.tar.gz", "f-2.tar.gz", "f-4.tar.gz", "f-3.tar.gz"]
    assert [each.path for each in plan.entries()] == names
    assert [each.id for each in plan.entries()] == list(range(9))
    urls = [f"http://h/{place}/f.tar.gz" for place in "pqr"]
    assert [each.url.value for each in plan.entries()][5:8] == urls
    (note,) = plan.notes
    assert note.startswith("files that clash with others and have other names: 4; ")


def test_files_that_clash_are_left_out(frozen):
    """The first of them stays, whatever it is."""
    plan = frozen(CLASHING, folding=MAY_FOLD, options=ReadingOptions(clash="skip"))
    assert [each.path for each in plan.entries()] == ["a", "b/x", "b/y", "f.tar.gz", "f-3.tar.gz"]
    assert (plan.skipped, len(plan.notes)) == (0, 1)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("d/a.txt", "d/a-2.txt"),
        (".profile", ".profile-2"),
        ("d.x/a", "d.x/a-2"),
        ("\u00e9" * 125 + ".json", "\u00e9" * 124 + "-2.json"),
    ],
)
def test_a_number_goes_before_the_ending(path, name):
    """The name stays one that a file may have."""
    assert number_name(path, 2) == name


@pytest.mark.parametrize(
    ("paths", "lines"),
    [(["a", "a/b"], "2 and 3"), (["x/a/b/c/d", "q", "x/a/b"], "4 and 2"), (["A", "b", "a/c"], "2 and 4")],
)
def test_file_where_a_directory_is_needed(clashes_of, paths, lines):
    """Of a file and a directory of one name the file fails, and its message names both entries."""
    [(line, message)] = clashes_of(document(*map(entry, paths)), folding=MAY_FOLD)
    assert line == int(lines[0])
    assert f"a directory for {max(paths, key=len)!r}" in message
    assert f"lines {lines}" in message


def test_alike_but_apart(frozen):
    """A common prefix is no collision."""
    assert len(frozen(document(*map(entry, ["a", "ab", "a.b", "b/a", "b/ab", "bb/a"])))) == 6


def test_one_line_documents_name_entries(clashes_of):
    """Where all entries stand on one line, the message tells their numbers."""
    text = json.dumps({"files": [entry("b"), entry("a"), {"url": "http://h/a?sig=CANARY", "path": "a"}]})
    [(_, message)] = clashes_of(text)
    assert "entries 1 and 2, counted from 0" in message
    assert "CANARY" not in message


def test_clashes_of_one_sort_are_one_cause(frozen):
    """Names that fold, files that are directories, and paths stated twice, whatever the names are."""
    rows = map(entry, ["a b", "A b", "it's", "IT'S", "d", "d/x", "e", "e/y's", "f", "g"])
    twice = [entry("f", size=1), entry("g", size=1)]
    plan = frozen(document(*rows, *twice), folding=MAY_FOLD)
    failures = [
        Summary.Failure(id=each.id, path=each.path, kind="clash", message=each.clash.message)
        for each in plan.entries()
        if each.clash is not None
    ]
    assert [cause.files for cause in group_by_cause(failures)] == [2, 2, 2]


def test_an_equal_hash_proves_that_two_entries_are_one_file(frozen):
    """Whatever links they state; the first one stays."""
    twin = entry("a", size=1, sha256=SHA_A)
    plan = frozen(document(twin, {**twin, "url": "http://h/other"}))
    assert ([each.url.value for each in plan.entries()], plan.merged) == (["http://h/1"], 1)


def test_an_entry_that_clashes_with_one_that_is_not_taken_comes(frozen):
    """The choice of paths may be how the user settles it; new names stay as they are in the whole list."""
    rows = document(*map(entry, ["a", "A", "b"]))
    for clash, names in (("fail", ["A", "b"]), ("skip", ["A", "b"]), ("rename", ["A-2", "b"])):
        options = ReadingOptions(exclude=("a",), clash=clash)
        plan = frozen(rows, folding=MAY_FOLD, options=options)
        assert [(each.path, each.clash) for each in plan.entries()] == [(name, None) for name in names]


def test_all_that_would_be_the_first_file_fail(frozen):
    """Also pieces of a file, and a row that states a stronger hash of one that clashes."""
    piece = {"size": 1, "assemble": True}
    rows = [
        entry("a", size=1, md5="0" * 32),
        entry("A", size=1, md5="0" * 32),
        entry("a", size=1, sha256=SHA_A),
        entry("A", size=1, sha256=SHA_A),
        *({"url": f"http://h/{n}", "path": "\u0041\u0301", **piece} for n in range(2)),
        *({"url": f"http://h/{n}", "path": "\u00c1", **piece} for n in range(2)),
        *({"url": f"http://h/{n}", "path": "d", **piece} for n in range(2)),
        entry("D/x"),
    ]
    plan = frozen(document(*rows), folding=MAY_FOLD)
    assert [(each.line, each.clash and each.clash.other) for each in plan.entries()] == [
        (4, None),
        (5, "a"),
        (6, None),
        (7, None),
        (8, "A\u0301"),
        (9, "A\u0301"),
        (10, "D/x"),
        (11, "D/x"),
        (12, None),
    ]
    for clash, names in (("skip", ["a", "A\u0301", "A\u0301", "D/x"]), ("rename", ["a", "A-3"])):
        left = frozen(document(*rows), folding=MAY_FOLD, options=ReadingOptions(clash=clash))
        assert [each.path for each in left.entries() if each.clash is None][: len(names)] == names


def test_a_plan_keeps_which_entries_fail_and_one_without_the_word_is_read(frozen, tmp_path):
    """The clash goes with the entry; a record of an older version ends before it."""
    plan = frozen(document(*map(entry, "aA")), folding=MAY_FOLD)
    first, second = plan.entries()
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(second), type=Entry)
    assert again.clash == second.clash
    assert again.clash is not None
    assert again.clash.other == first.path
    older = msgspec.msgpack.decode(msgspec.msgpack.encode(second))[:-1]
    assert msgspec.convert(older, Entry, strict=False).clash is None
    apart = frozen(document(*map(entry, "aA")))
    assert plan.digest != apart.digest


@pytest.mark.parametrize(("in_memory", "waiting"), [(2, 1), (4096, 900), (4096, 1 << 18)])
def test_collisions_far_apart(clashes_of, monkeypatch, in_memory, waiting):
    """Collisions are found among many entries and directories, wherever the entries or hashes stand."""
    monkeypatch.setattr("cfetch.manifest.path_buckets.MOST_IN_MEMORY", in_memory)
    monkeypatch.setattr("cfetch.manifest.collisions.MOST_WAITING", waiting)
    paths = [f"d{i % 5000}/f{i}" for i in range(12_000)]
    rows = document(*map(entry, [*paths, "d4321", paths[-1] + "/x", "D77/f77"]))
    failing = [line for line, _ in clashes_of(rows, folding=MAY_FOLD)]
    assert failing == [12_001, 12_002, 12_004]  # a file that is a directory for another one gives way


@pytest.mark.parametrize(("in_memory", "waiting"), [(2, 1), (4096, 900), (4096, 1 << 18)])
def test_find(frozen, monkeypatch, in_memory, waiting):
    """An entry is found by its exact path alone, whether its hash is in memory or in a file."""
    monkeypatch.setattr("cfetch.manifest.path_buckets.MOST_IN_MEMORY", in_memory)
    monkeypatch.setattr("cfetch.manifest.collisions.MOST_WAITING", waiting)
    plan = frozen(document(*(entry(f"d{i % 7}/f{i}") for i in range(1000))))
    assert [plan.find(f"d{i % 7}/f{i}") for i in range(1000)] == list(range(1000))
    assert [plan.find(path) for path in ("d1", "D1/F1", "d1/f2", "")] == [None] * 4


def test_find_after_merging(frozen):
    """Finding works in a plan from which repeated entries were dropped."""
    files = [entry(f"f{i}") for i in range(2000)]
    plan = frozen(document(*files, files[7]))
    assert plan.merged == 1
    assert [plan.find(f"f{i}") for i in range(2000)] == list(range(2000))


def test_paths_that_cannot_be_kept_are_a_local_fault(tmp_path, monkeypatch):
    """The message names the directory that is full, and nothing of the manifest."""
    monkeypatch.setattr("cfetch.manifest.path_buckets.MOST_IN_MEMORY", 1)
    monkeypatch.setattr("cfetch.manifest.collisions.MOST_WAITING", 1)
    with pytest.raises(LocalFault, match=r"the manifest's paths in .*gone: No such file"):
        PathIndex(tmp_path / "gone").add(["secret"], 0)


def test_an_entry_takes_a_few_bytes_of_memory(frozen):
    """Columns are as narrow as their numbers permit, and become wider with the first that needs it."""
    narrow = frozen(document(*(entry(f"{number}", size=number) for number in range(300))))
    assert (narrow.sizes.itemsize, narrow.host_of.itemsize) == (4, 1)
    rows = [{"url": f"http://h{number}/{number}", "size": number} for number in range(300)]
    rows[7] |= {"size": 1 << 40}
    rows[9] |= {"mirrors": ["http://m/" + "m" * 9000] * 8}  # a record of more than 64 KiB
    wide = frozen(document(*rows))
    assert (wide.sizes.itemsize, wide.host_of.itemsize) == (8, 2)
    assert [made.size_bytes for made in wide.entries()] == [row["size"] for row in rows]
    assert [wide.entry(index).id for index in (299, 0, 10, 9, 8, 128, 64)] == [299, 0, 10, 9, 8, 128, 64]
    assert [wide.hosts[host] for host in wide.host_of] == [f"h{number}" for number in range(300)]


def test_directories_are_kept_once(tmp_path):
    """A directory costs memory once, not once for each entry in it."""
    paths = PathIndex(tmp_path)
    for i in range(1000):
        paths.add([f"d/e/{i}"], i)
    paths.add(["d"], 1000)
    assert list(paths.candidates()) == [([1000], [0])]


def test_digest(frozen):
    """The digest is of what is stated: layout, expiry and headers do not change it, the rest does."""
    base = entry("a", size=1)
    same = frozen(document(base)).digest
    other = json.dumps({**base, "expires_at": 5, "headers": {"Y": "v"}})
    text = f'{{"version":1,\n\n"headers":{{"X":"v"}},"files":[{other}]}}'
    assert frozen(text).digest == same
    signed = {"url": base["url"] + SIGNED + "1", "mirrors": ["http://m/a" + SIGNED + "1"]}
    anew = {"url": base["url"] + SIGNED + "2", "mirrors": ["http://m/a" + SIGNED + "2"]}
    assert frozen(document({**base, **signed})).digest == frozen(document({**base, **anew})).digest
    for change in (
        {"url": "http://h/?q"},
        {"url": base["url"] + "?sig=1"},
        {"size": 2},
        {"path": "b"},
        {"offset": 1},
        {"sha256": SHA_A},
        {"batch": "b"},
    ):
        assert frozen(document({**base, **change})).digest != same
    assert frozen(document(base, entry("b"))).digest != frozen(document(entry("b"), base)).digest


def test_repr_shows_no_secret(frozen):
    """An entry and a plan's headers can be printed."""
    text = '{"headers":{"X":"CANARY"},"files":[{"url":"http://h/a?CANARY","headers":{"Y":"CANARY"}}]}'
    plan = frozen(text)
    assert "CANARY" not in f"{plan.entry(0)!r} {plan.headers!r} {plan!r}"


def test_a_plan_is_loaded_as_it_was_frozen(frozen, tmp_path):
    """Entries, sizes, hosts, headers, digest and paths: nothing tells it from the one that froze it."""
    rows = [entry("a", size=5), entry("b/c", sha256=SHA_A), {**entry("d"), "url": "http://other/d?sig=1"}]
    text = json.dumps({"version": 1, "headers": {"X": "secret"}, "files": [*rows, rows[0]]})
    plan = frozen(text)
    directory = next(tmp_path.glob("plan*"))
    with load_plan(directory) as loaded:
        assert [loaded.entry(i) for i in range(len(loaded))] == [plan.entry(i) for i in range(3)]
        for name in ("digest", "hosts", "total_bytes", "sizes_unknown", "merged", "source", "headers"):
            assert getattr(loaded, name) == getattr(plan, name)
        assert (list(loaded.sizes), list(loaded.host_of)) == (list(plan.sizes), list(plan.host_of))
        assert (loaded.find("b/c"), loaded.find("x")) == (1, None)


def entries_of(frozen, *files):
    """As a feed has them: checked each by itself, and all with one id."""
    return [
        msgspec.structs.replace(frozen(document(file)).entry(0), id=0, line=7, chunk=position)
        for position, file in enumerate(files)
    ]


def test_entries_are_frozen_as_their_manifest_is(frozen, tmp_path):
    """Columns, ids and repeats: only the check of each row is left out, nothing stated is lost."""
    files = [entry("a", size=5, sha256=SHA_A), entry("b/c", headers={"X": "secret"}), entry("d", batch="n")]
    entries = entries_of(frozen, *files)
    directory = tmp_path / "entries"
    directory.mkdir()
    with (
        freeze_entries([*entries, entries[0]], name="feed", directory=directory) as plan,
        load_plan(directory) as loaded,
    ):
        wanted = [msgspec.structs.replace(stated, id=n, line=0) for n, stated in enumerate(entries)]
        assert list(plan.entries()) == list(loaded.entries()) == wanted
        assert (plan.merged, plan.source, plan.headers, plan.total_bytes) == (1, "feed", (), 5)
        assert plan.digest == loaded.digest


@pytest.mark.parametrize(
    ("paths", "message"),
    [(["a", "b", "B"], "differ only in case"), (["a/b", "a"], "a directory for 'a/b'")],
    ids=["case", "directory"],
)
def test_entries_for_one_place_are_to_fail(frozen, tmp_path, paths, message):
    """What needs all entries is checked for those of a feed too."""
    entries = entries_of(frozen, *map(entry, paths))
    with freeze_entries(entries, name="feed", directory=tmp_path) as plan:
        [clash] = [each.clash for each in plan.entries() if each.clash is not None]
    assert message in clash.message
    assert "counted from 0" in clash.message


@pytest.mark.parametrize("cut", [1, 8, 24, 40, 10_000])
def test_a_plan_that_a_crash_has_torn_is_none(frozen, tmp_path, cut):
    """However much of its end is missing."""
    frozen(document(entry("a"), entry("b")))
    (path,) = tmp_path.glob("plan*/*")
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - cut)])
    with pytest.raises(LocalFault, match="plan"):
        load_plan(path.parent)


def test_a_link_without_a_host_has_the_empty_host(tmp_path):
    """As in a damaged plan, whose reader must not end in a traceback."""
    plan = PlanFile(tmp_path / "entries")
    plan.extend([Entry(id=0, url=SecretUrl("damaged"), path=SafePath("a"))])
    assert plan.host_of.tolist() == [0]
    plan.discard()


def test_a_plan_is_saved_where_there_are_neither_links_nor_modes(frozen, tmp_path, monkeypatch):
    """As on vfat: it is copied, and only its owner may read the copy, as it holds signed links."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not here")

    plan = frozen(document(entry("a")))
    for name in ("link", "chmod"):
        monkeypatch.setattr(os, name, refuse)
    saved = tmp_path / "saved"
    saved.mkdir()
    plan.save(saved)
    (path,) = saved.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    with load_plan(saved) as loaded:
        assert [each.path for each in loaded.entries()] == ["a"]
