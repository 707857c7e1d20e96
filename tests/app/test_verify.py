"""``cfetch verify``: every kind of damage to a real tree is named, and nothing is written."""

import hashlib
import io
import json
import os
import threading
from pathlib import Path

import pytest

from cfetch.app.verify import CHUNK_FILES, open_verification
from cfetch.base.errors import ManifestError, UsageError
from cfetch.cli.verify import print_verification
from cfetch.manifest.hashing import new_hash
from cfetch.show.live.bar import progress_bar
from cfetch.storage.tree import ReadOnlyTree, Stopped
from tests.app.command import cfetch

CONTENT = {"a.bin": b"alpha", "d/b.bin": b"beta" * 1000, "d/e/c.bin": b"", "z.bin": b"omega"}


def entry_of(path, content, algorithm="sha256"):
    running = new_hash(algorithm)
    running.update(content)
    url = f"https://h.example/{path}?sig=CANARY5ecret"
    return {"url": url, "path": path, "size": len(content), algorithm: running.hexdigest()}


@pytest.fixture
def tree(tmp_path):
    """A directory that is exactly what the manifest says."""
    root = tmp_path / "tree"
    for path, content in CONTENT.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / ".cfetch/metrics").mkdir(parents=True)
    (root / ".cfetch/metrics/x.jsonl").write_text("{}")
    return root


@pytest.fixture
def manifest(tmp_path):
    """Its manifest, beside it."""
    return write(tmp_path / "m.json", [entry_of(path, content) for path, content in CONTENT.items()])


def write(path, files):
    path.write_text(json.dumps({"files": files}))
    return str(path)


def compared(manifest, root, **options):
    """The differences as (kind, path), and the comparison."""
    with open_verification(str(manifest), [Path(root)], **options) as comparison:
        found = [(one.kind, one.path) for one in comparison.differences(lambda files, size_bytes: None)]
    return found, comparison


def test_a_terminal_gets_twenty_of_a_kind_and_how_to_see_all(tree, manifest, monkeypatch, capsys):
    """Two hundred lines of files that no list names hid the one that was missing; a pipe has them all."""
    for number in range(21):
        (tree / f"x{number:02}").touch()
    (tree / "a.bin").unlink()
    printed = {}
    for is_read in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_read=is_read: is_read)
        with open_verification(manifest, [tree]) as comparison:
            print_verification(comparison, json=False)
        printed[is_read] = capsys.readouterr().out.splitlines()
    assert printed[True] == [*printed[False][:21], "and 1 more excess; --json, or a pipe, names all"]
    assert len(printed[False]) == 22


def snapshot(root):
    """Names, kinds, contents and times of all that is in a tree."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.is_file() and path.read_bytes(),
        )
        for path in root.rglob("*")
    }


def test_whole_tree(tree, manifest):
    """A tree that is what the manifest says has no differences; cfetch's own state does not count."""
    found, comparison = compared(manifest, tree)
    assert found == []
    assert comparison.good == {"sha256": 4}


def grow(tree):
    (tree / "a.bin").write_bytes(b"alpha+")


def shrink(tree):
    (tree / "d/b.bin").write_bytes(b"")


def flip(tree):
    (tree / "d/b.bin").write_bytes(b"Beta" + b"beta" * 999)


def remove(tree):
    (tree / "a.bin").unlink()


def remove_parent(tree):
    (tree / "d/e/c.bin").unlink()
    (tree / "d/e").rmdir()


def link_file(tree):
    (tree / "a.bin").rename(tree.parent / "outside")
    (tree / "a.bin").symlink_to("../outside")


def link_parent(tree):
    (tree / "d/e").rename(tree.parent / "outside")
    (tree / "d/e").symlink_to(tree.parent / "outside")


def directory(tree):
    (tree / "a.bin").unlink()
    (tree / "a.bin").mkdir()


def pipe(tree):
    (tree / "a.bin").unlink()
    os.mkfifo(tree / "a.bin")


def file_as_parent(tree):
    remove_parent(tree)
    (tree / "d/e").write_bytes(b"")


def add(tree):
    (tree / "d/new").write_bytes(b"")


def add_hostile(tree):
    (tree / "d/\x1b[31m\n").write_bytes(b"")


def add_undecodable(tree):
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff")).write_bytes(b"")


def add_link(tree):
    (tree / "loop").symlink_to(".")


DAMAGE = [
    (grow, [("wrong size", "a.bin")]),
    (shrink, [("wrong size", "d/b.bin")]),
    (flip, [("wrong hash", "d/b.bin")]),
    (remove, [("missing", "a.bin")]),
    (remove_parent, [("missing", "d/e/c.bin")]),
    (link_file, [("not regular", "a.bin")]),
    (link_parent, [("not regular", "d/e/c.bin"), ("excess", "d/e")]),
    (directory, [("not regular", "a.bin")]),
    (pipe, [("not regular", "a.bin")]),
    (file_as_parent, [("not regular", "d/e/c.bin"), ("excess", "d/e")]),
    (add, [("excess", "d/new")]),
    (add_hostile, [("excess", "d/\x1b[31m\n")]),
    (add_undecodable, [("excess", "\\xff")]),
    (add_link, [("excess", "loop")]),
]


@pytest.mark.parametrize(("damage", "expected"), DAMAGE, ids=[damage.__name__ for damage, _ in DAMAGE])
def test_each_kind_of_damage(tree, manifest, damage, expected):
    """Damage is told by its kind, and looking at it changes nothing."""
    damage(tree)
    before = snapshot(tree)
    found, comparison = compared(manifest, tree)
    assert found == expected
    assert comparison.found.total() == len(expected)
    assert snapshot(tree) == before


def test_all_damage_at_once_in_order(tree, manifest):
    """Differences come in the manifest's order, then what is in excess."""
    for damage in (grow, flip, remove_parent, add):
        damage(tree)
    found, comparison = compared(manifest, tree)
    assert [kind for kind, _ in found] == ["wrong size", "wrong hash", "missing", "excess"]
    assert comparison.good == {"sha256": 1}


def test_quick_compares_sizes_alone(tree, manifest):
    """A changed byte goes unseen by --quick, a changed size does not; the counts say what vouched."""
    flip(tree)
    found, comparison = compared(manifest, tree, quick=True)
    assert found == []
    assert comparison.good == {"size": 4}
    grow(tree)
    assert compared(manifest, tree, quick=True)[0] == [("wrong size", "a.bin")]


def test_quick_follows_no_link(tree, manifest):
    """A link to a file of the right size is no file, by size alone too."""
    link_file(tree)
    assert compared(manifest, tree, quick=True)[0] == [("not regular", "a.bin")]


def test_what_vouches(tree, tmp_path):
    """A file without a hash is vouched for by its size, without a size by nothing, and the counts say so."""
    files = [entry_of(path, content) for path, content in CONTENT.items()]
    del files[0]["sha256"], files[1]["sha256"], files[1]["size"]
    _, comparison = compared(write(tmp_path / "n.json", files), tree)
    assert comparison.good == {"size": 1, "none": 1, "sha256": 2}


@pytest.mark.parametrize("algorithm", ["sha512", "sha256", "sha1", "md5", "crc32c", "blake3"])
def test_every_algorithm(tree, tmp_path, algorithm):
    """Each hash that a manifest may state is computed and compared."""
    files = [entry_of(path, content, algorithm) for path, content in CONTENT.items()]
    manifest = write(tmp_path / "n.json", files)
    assert compared(manifest, tree)[1].good == {algorithm: 4}
    flip(tree)
    assert compared(manifest, tree)[0] == [("wrong hash", "d/b.bin")]


@pytest.mark.needs_plugins
def test_checksum_list_needs_no_base_url(tree):
    """A list without URLs is enough, and when it lies in the tree it is not in excess there."""
    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  ./{path}\n" for path, content in CONTENT.items())
    (tree / "SHA256SUMS").write_text(lines)
    found, comparison = compared(tree / "SHA256SUMS", tree)
    assert (found, comparison.good) == ([], {"sha256": 4})


def test_many_files_and_progress(tmp_path):
    """Files of several chunks are all looked at, once each, and progress adds up to files and bytes."""
    root = tmp_path / "many"
    root.mkdir()
    content = {f"{i:04d}": b"x" * (i % 50) for i in range(5 * CHUNK_FILES + 7)}
    for path, data in content.items():
        (root / path).write_bytes(data)
    content["missing"] = b"four"
    manifest = write(tmp_path / "m.json", [entry_of(path, data) for path, data in content.items()])
    told, lock = [0, 0], threading.Lock()

    def advance(files, size_bytes):
        with lock:
            told[0] += files
            told[1] += size_bytes

    with open_verification(manifest, [root]) as comparison:
        assert [one.path for one in comparison.differences(advance)] == ["missing"]
    assert told == [len(content), sum(map(len, content.values()))]
    assert comparison.good == {"sha256": len(content) - 1}


def test_leaving_early_stops_the_threads(tree, manifest):
    """When the walk is left, threads that are hashing end at their next read."""
    with open_verification(manifest, [tree]) as comparison:
        differences = comparison.differences(lambda files, size_bytes: None)
        remove(tree)
        next(differences)
        differences.close()
        with pytest.raises(Stopped):
            comparison._judge_entry(comparison._plan.entry(1), lambda files, size_bytes: None)


def test_unreadable(tree, manifest, monkeypatch):
    """A file that the disk does not give is told with the system's words, and the rest is still looked at."""
    real = ReadOnlyTree.hash_of

    def failing(self, path, algorithm, read, **part):
        if path == "a.bin":
            raise OSError(5, "Input/output error")
        return real(self, path, algorithm, read, **part)

    monkeypatch.setattr(ReadOnlyTree, "hash_of", failing)
    with open_verification(manifest, [tree]) as comparison:
        [one] = comparison.differences(lambda files, size_bytes: None)
    assert (one.kind, one.path, one.message) == ("unreadable", "a.bin", "Input/output error")
    assert comparison.good == {"sha256": 3}


def test_no_such_directory_or_manifest(tree, manifest, tmp_path):
    """What cannot be opened is the caller's fault, and no directory is made of it."""
    with pytest.raises(UsageError, match="nowhere"):
        compared(manifest, tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"gone\.json"):
        compared(tmp_path / "gone.json", tree)
    with pytest.raises(ManifestError):
        compared(write(tmp_path / "n.json", [{"url": "sftp://h"}]), tree)
    assert not (tmp_path / "nowhere").exists()


def test_of_several_volumes_one_that_is_not_there_is_named_with_the_way_out(tree, manifest):
    """A download does without it, and a comparison would tell of its files as missing."""
    gone = tree.parent / "gone"
    words = f"{gone}.* mount it, or leave --to {gone} out"
    with pytest.raises(UsageError, match=words), open_verification(str(manifest), [tree, gone]):
        pass


def test_a_deep_tree_is_walked(tmp_path):
    """Depth costs no recursion."""
    root = tmp_path / "deep"
    path = root
    for _ in range(300):
        path = path / "d"
    path.mkdir(parents=True)
    (path / "f").write_bytes(b"")
    with ReadOnlyTree(root) as tree:
        assert [found.path for found in tree.walk()] == ["d/" * 300 + "f"]


def test_a_file_that_nothing_proves_is_not_called_good(tmp_path):
    """The list states neither size nor hash, and cfetch did not download the file."""
    (tmp_path / "list.txt").write_text("https://example.org/a\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_bytes(b"anything")
    done = cfetch("verify", tmp_path / "list.txt", "--to", tmp_path / "there")
    said = (
        "good: none; 1 present, but not checked, as the manifest has neither size nor hash; found: nothing to"
    )
    assert (done.returncode, said in done.stderr) == (0, True)


def test_hashes_may_be_demanded(tree, manifest, tmp_path):
    """A size, or nothing, is then no proof; what is only there is never said to be without fault."""
    sized = {key: value for key, value in entry_of("z.bin", b"omega").items() if key != "sha256"}
    files = [*json.loads(Path(manifest).read_text())["files"][:2], sized, {"url": "https://h/d/e/c.bin"}]
    some = write(tmp_path / "some.json", [*files[:3], {**files[3], "path": "d/e/c.bin"}])
    assert cfetch("verify", manifest, "--to", tree, "--need-hashes").returncode == 0
    lax, strict = (cfetch("verify", some, "--to", tree, *more) for more in ((), ("--need-hashes",)))
    assert (lax.returncode, strict.returncode) == (0, 1)
    assert "1 present, but not checked" in lax.stderr
    assert "found: nothing wrong in the 3 that could be checked" in lax.stderr
    assert "the manifest has no hash of 2 files found there" in strict.stderr
    done = cfetch("verify", some, "--to", tree, "--json", "--need-hashes")
    assert (done.returncode, json.loads(done.stdout)["without_hash"]) == (1, 2)
    assert cfetch("verify", some, "--to", tree, "--quick", "--need-hashes").returncode == 2


def test_command_says_what_is_wrong(tree, manifest):
    """A line for each difference on stdout, counts on stderr, exit code 1; no escape and no secret."""
    for damage in (flip, remove, add_hostile):
        damage(tree)
    done = cfetch("verify", manifest, "--to", tree)
    assert done.returncode == 1
    kinds = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert kinds == ["missing", "wrong hash", "excess"]
    assert "good: 2 by sha256; found: 1 missing, 1 wrong hash, 1 excess" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "CANARY5ecret" not in done.stdout + done.stderr


def test_command_json_and_exit_codes(tree, manifest):
    """--json is one document; 0 when all is good, 1 when not, 2 when there is nothing to compare with."""
    good = cfetch("verify", "-", "--to", tree, "--json", stdin=Path(manifest).read_text())
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout) == {
        "schema": "cfetch.verification/1", "differences": [], "duplicates": [], "files": 4, "quick": False,
        "good": {"sha256": 4}, "without_hash": 0, "found": {},
    }  # fmt: skip
    add(tree)
    remove(tree)
    bad = cfetch("verify", manifest, "--to", tree, "--json", "--quick")
    document = json.loads(bad.stdout)
    assert bad.returncode == 1
    found = [(one["kind"], one["path"]) for one in document["differences"]]
    assert found == [("missing", "a.bin"), ("excess", "d/new")]
    assert document["found"] == {"missing": 1, "excess": 1}
    assert cfetch("verify", manifest, "--to", tree / "nowhere").returncode == 2


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize("size_bytes", [None, 100])
def test_bar_on_a_terminal(monkeypatch, size_bytes):
    """On a terminal a bar shows files and bytes, and is taken away at the end."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    stream = Terminal()
    with progress_bar("verifying", files=2, size_bytes=size_bytes, stream=stream) as advance:
        advance(1, 60)
        advance(1, 40)
    assert "2 of 2 files, 100 B" in stream.getvalue()
    for files, words in ((1, "1 of 1 file, 9 B"), (None, "1 file, 9 B")):
        with progress_bar("verifying", files=files, size_bytes=9, stream=stream) as advance:
            advance(1, 9)
        assert words in stream.getvalue()


def test_lines_elsewhere(monkeypatch):
    """In a log nothing is said of short work, then a line now and then."""
    now = [0.0]
    monkeypatch.setattr("cfetch.show.live.bar.SystemClock.monotonic", lambda: now[0])
    stream = io.StringIO()
    with progress_bar("verifying", files=2000, stream=stream) as advance:
        for at_s in (1.0, 1.9, 2.0, 3.0, 11.9, 12.0):
            now[0] = at_s
            advance(300, 1024)
    assert stream.getvalue().splitlines() == [
        "verifying: 900 of 2,000 files, 3.0 KiB",
        "verifying: 1,800 of 2,000 files, 6.0 KiB",
    ]


@pytest.fixture
def disks(tree, tmp_path):
    """The tree shared out over three disks: two files on the first, one on each of the others."""
    for name, path in (("second", "d/b.bin"), ("third", "z.bin")):
        target = tmp_path / name / path
        target.parent.mkdir(parents=True)
        (tree / path).rename(target)
    return [tree, tmp_path / "second", tmp_path / "third"]


def compared_on(manifest, disks, **options):
    """The differences as (kind, path, volume), the duplicates, and the comparison."""
    with open_verification(manifest, disks, **options) as comparison:
        found = [
            (one.kind, one.path, one.volume) for one in comparison.differences(lambda files, size_bytes: None)
        ]
        return found, [*comparison.duplicates], comparison


def test_each_file_stands_on_one_of_several_disks(disks, manifest):
    """Wherever it stands, it is right; without one of the disks, what stands there is missing."""
    found, duplicates, comparison = compared_on(manifest, disks)
    assert (found, duplicates, comparison.good) == ([], [], {"sha256": 4})
    found, _, comparison = compared_on(manifest, disks[:2])
    assert (found, comparison.good) == ([("missing", "z.bin", None)], {"sha256": 3})


def test_the_same_file_on_two_disks_is_a_remark(disks, manifest, tmp_path):
    """It counts once, is nothing wrong, and the disks are named; the progress ends at the plan's bytes."""
    for disk in (disks[0], disks[2]):
        (disk / "d").mkdir(exist_ok=True)
        (disk / "d/b.bin").write_bytes(CONTENT["d/b.bin"])
    (disks[2] / "a.bin").write_bytes(CONTENT["a.bin"])
    found, duplicates, comparison = compared_on(manifest, disks)
    assert (found, comparison.good) == ([], {"sha256": 4})
    assert [(one.path, [Path(volume).name for volume in one.volumes]) for one in duplicates] == [
        ("a.bin", ["tree", "third"]),
        ("d/b.bin", ["tree", "second", "third"]),
    ]
    told = []
    with open_verification(manifest, disks) as comparison:
        assert [*comparison.differences(lambda files, size_bytes: told.append(size_bytes))] == []
    assert sum(told) == comparison.total_bytes == sum(map(len, CONTENT.values()))


def test_a_wrong_copy_on_another_disk_is_a_difference(disks, manifest):
    """The file is right, and what stands under its name elsewhere is told with the disk it stands on."""
    (disks[1] / "a.bin").write_bytes(b"ALPHA")
    (disks[2] / "a.bin").write_bytes(b"too long")
    (disks[2] / "new").write_bytes(b"")
    found, duplicates, comparison = compared_on(manifest, disks)
    assert found == [
        ("wrong hash", "a.bin", str(disks[1])),
        ("wrong size", "a.bin", str(disks[2])),
        ("excess", "new", str(disks[2])),
    ]
    assert (duplicates, comparison.good) == ([], {"sha256": 4})


def test_a_name_that_blocks_the_way_on_another_disk(disks, manifest):
    """A file in a directory's place hinders nothing that stands elsewhere, but it is in excess."""
    (disks[2] / "d").write_bytes(b"")
    found, _, comparison = compared_on(manifest, disks)
    assert (found, comparison.good) == ([("excess", "d", str(disks[2]))], {"sha256": 4})
    (disks[1] / "d/b.bin").unlink()
    found, _, _ = compared_on(manifest, disks)
    assert found == [("not regular", "d/b.bin", str(disks[2])), ("excess", "d", str(disks[2]))]


def test_a_manifest_that_lies_on_one_of_the_disks_is_not_in_excess(disks, manifest):
    """It is passed over there, and only there."""
    inside = disks[1] / "m.json"
    Path(manifest).rename(inside)
    assert compared_on(str(inside), disks)[0] == []
    (disks[2] / "m.json").write_text("{}")
    assert compared_on(str(inside), disks)[0] == [("excess", "m.json", str(disks[2]))]


def test_command_over_several_disks(disks, manifest):
    """--to is given for each; the document names disks and duplicates, the lines too."""
    (disks[1] / "a.bin").write_bytes(CONTENT["a.bin"])
    to = [word for disk in disks for word in ("--to", disk)]
    done = cfetch("verify", manifest, *to, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["differences"]) == (0, [])
    assert document["duplicates"] == [{"path": "a.bin", "volumes": [str(disks[0]), str(disks[1])]}]
    (disks[2] / "z.bin").write_bytes(b"OMEGA")
    told = cfetch("verify", manifest, *to)
    assert told.returncode == 1
    [wrong, twice] = told.stdout.splitlines()
    assert wrong.startswith("wrong hash: z.bin: its sha256 is ")
    assert wrong.endswith(f" (on {disks[2]})")
    assert twice == f"duplicate: a.bin: it stands on {disks[0]}, {disks[1]}"
    assert told.stderr.endswith("good: 3 by sha256; found: 1 wrong hash; 1 on several volumes\n")


@pytest.mark.parametrize(
    ("to", "words"),
    [
        (("s3://key:CANARY5ecret@bucket",), "without user, query or fragment"),
        (("tree", "tree/d"), "which lies in tree"),
        (("",), "must name a directory"),
    ],
)
def test_what_cannot_be_verified(tree, manifest, to, words):
    """A wrong destination gets the reason; no secret is repeated."""
    at = [word for one in to for word in ("--to", tree.parent / one if one.startswith("tree") else one)]
    done = cfetch("verify", manifest, *at)
    assert (done.returncode, done.stdout) == (2, "")
    assert words.replace("in tree", f"in {tree}") in " ".join(done.stderr.split())
    assert "CANARY5ecret" not in done.stderr
