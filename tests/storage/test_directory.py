"""A destination that changes under a run, and what is written on a file about where it came from."""

import base64
import errno
import os
import shutil
from pathlib import Path

import pytest

from cfetch.base.errors import Blocked, LocalFault, Unstorable, VolumeFault
from cfetch.manifest.entry import safe_path
from cfetch.storage.descriptors import MOST_NAMES
from cfetch.storage.directory import Directory
from cfetch.storage.etags import is_hash, is_same
from cfetch.storage.part import Part
from cfetch.storage.source_records import ATTRIBUTE, SUPERSEDED, set_source, source_of
from cfetch.storage.sources_in_state import name_records
from cfetch.storage.standing_files import StandingFiles
from cfetch.storage.volume_values import SourceRecord
from tests.engine.drive import entry_of, tree

DATA = bytes(range(256)) * 8


def published(volume, path, number=0, **how):
    part = Part(volume, entry_of(number, path, DATA, **how))
    part.write(DATA)
    try:
        part.publish()
    finally:
        part.discard()


def test_an_older_version_is_removed_only_if_the_new_one_may_replace_it(volume, root):
    """Another program may have put a file there meanwhile."""
    (root / "a").write_bytes(b"1")
    identity = volume.identify(safe_path("a"))
    (root / "a").unlink()
    (root / "a").write_bytes(b"22")
    volume.remove(safe_path("a"), (identity.content,))
    assert (root / "a").read_bytes() == b"22"
    volume.remove(safe_path("a"), (volume.identify(safe_path("a")).content,))
    assert not (root / "a").exists()


def test_only_the_very_file_is_deleted(volume, root, tmp_path):
    """None that was changed, replaced or linked, and none beyond a symlink; an empty directory goes along."""
    path = safe_path("d/a")
    published(volume, path)
    identity = volume.identify(path)
    (root / "d").rename(tmp_path / "d")
    (root / "d").symlink_to(tmp_path / "d")
    assert (volume.identify(path), volume.delete_exactly(path, identity)) == (None, False)
    (root / "d").unlink()
    (tmp_path / "d").rename(root / "d")
    (root / "d/b").hardlink_to(root / "d/a")
    assert not volume.delete_exactly(path, identity)
    (root / "d/b").unlink()
    assert volume.delete_exactly(path, volume.identify(path))
    assert not volume.delete_exactly(path, identity)
    assert not (root / "d").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_destination_where_no_directory_can_be_made_says_so():
    """It was never there, so nothing has removed it."""
    with pytest.raises(VolumeFault, match=r"/proc/nope/a as a destination: no directory can be made there;"):
        Directory(Path("/proc/nope/a"))


@pytest.mark.parametrize("act", [shutil.rmtree, lambda path: path.rename(path.with_name("moved"))])
def test_c104_a_directory_that_went_is_made_again(volume, root, act):
    """The held one no longer stands under that name: what is put into it would be lost, or elsewhere."""
    published(volume, "d/e/a")
    act(root / "d")
    assert volume.existing(safe_path("d/e/a")) is None
    published(volume, "d/e/b", 1)
    assert (root / "d/e/b").read_bytes() == DATA
    assert not (root / "moved/e/b").exists()


def test_c104_a_directory_that_goes_at_the_very_moment_is_made_again(volume, root, monkeypatch):
    """Between the look at it and the rename."""
    published(volume, "d/a")
    real = os.rename
    gone: list[str] = []

    def rename(*arguments, **how):
        if not gone:
            gone.append("d")
            shutil.rmtree(root / "d")
        real(*arguments, **how)

    monkeypatch.setattr(os, "rename", rename)
    published(volume, "d/b", 1)
    assert tree(root) == {"d/b": DATA}


def test_c104_a_directory_that_goes_within_a_group_is_made_again(volume, root):
    """One look is enough for a group of names, but not where a name could not be given."""
    with volume.one_look():
        published(volume, "d/a")
        shutil.rmtree(root / "d")
        published(volume, "d/b", 1)
    assert tree(root) == {"d/b": DATA}


def test_c104_a_group_looks_once_at_each_directory(volume, root, monkeypatch):
    """The next group looks again."""
    published(volume, "d/first")
    looks = []
    real = os.stat

    def stat(path, **how):
        looks.append(path)
        return real(path, **how)

    monkeypatch.setattr(os, "stat", stat)
    with volume.one_look():
        for number in range(1, 4):
            published(volume, f"d/{number}", number)
    assert len(looks) == 1
    shutil.rmtree(root / "d")
    with volume.one_look():
        published(volume, "d/last", 4)
    assert tree(root) == {"d/last": DATA}


@pytest.mark.parametrize(("path", "is_free"), [
    ("a", False), ("b", True), ("none/a", True), ("d/a", False), ("d/b", True),
    ("many/x", True), ("many/1", False), ("file/a", False), ("link/a", False), (".cfetchs", True),
    ("ä", False),
])  # fmt: skip
def test_only_a_name_that_stands_for_nothing_is_free(volume, root, path, is_free):
    """Of an obstacle and of what is behind a symlink nothing is known; a large directory is not listed."""
    for name in ("a", "d/a", "file", "ä", *(f"many/{number}" for number in range(MOST_NAMES + 1))):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(DATA)
    (root / "link").symlink_to(root / "d")
    assert volume.was_free(safe_path(path)) == is_free


def test_a_directory_is_read_once(volume, root, monkeypatch):
    """However many of its names are asked for."""
    listings = []
    real = os.scandir

    def scandir(path):
        listings.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (root / "d").mkdir()
    assert all(volume.was_free(safe_path(f"d/{number}")) for number in range(10))
    assert len(listings) == 1


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("path", ["a", "d/a"])
def test_c104_a_destination_that_went_ends_the_run(volume, root, tmp_path, again, path):
    """Moved, or replaced by another directory: no file is said to be where it is not."""
    published(volume, "d/first")
    root.rename(tmp_path / "moved")
    if again:
        root.mkdir()
    with pytest.raises(LocalFault, match=r"was moved, unmounted or removed while .*; put it back"):
        published(volume, path, 1)
    with pytest.raises(LocalFault, match="was moved, unmounted or removed"):
        volume.existing(safe_path(path))
    assert tree(tmp_path / "moved") == {"d/first": DATA}
    (shutil.rmtree if again else lambda _: None)(root)
    (tmp_path / "moved").rename(root)
    published(volume, path, 2)
    assert (root / path).read_bytes() == DATA


def test_c104_a_destination_may_be_reached_by_a_symlink(tmp_path):
    """The user's own; it is looked at again like any other."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    volume = Directory(tmp_path / "link", "attempts/i/0")
    published(volume, "d/a")
    published(volume, "b", 1)
    volume.close()
    assert tree(tmp_path / "real") == {"d/a": DATA, "b": DATA}


def test_c104_a_directory_behind_a_symlink_to_itself_is_outside(volume, root, tmp_path):
    """Moved away with a symlink in its place: the same directory, but no longer below the destination."""
    published(volume, "d/a")
    (root / "d").rename(tmp_path / "elsewhere")
    (root / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Blocked):
        published(volume, "d/b", 1)
    assert os.listdir(tmp_path / "elsewhere") == ["a"]


@pytest.mark.parametrize("swapped", ["d", "d/e"])
def test_c104_a_symlink_above_a_held_directory_leads_outside(volume, root, tmp_path, swapped):
    """The deepest directory is the same one, but the way to it goes through a symlink."""
    published(volume, "d/e/f/a")
    (root / swapped).rename(tmp_path / "elsewhere")
    (root / swapped).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Blocked):
        published(volume, "d/e/f/b", 1)
    assert [path.name for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()] == ["a"]


def test_c104_a_staging_area_that_went_is_told(volume, root):
    """Somebody removed the state of a live run."""
    shutil.rmtree(root / ".cfetch")
    with pytest.raises(LocalFault, match=r"cannot create a part file in .* \(something removed it while"):
        published(volume, "a")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_c91_a_volume_remembers_that_it_lost_writes(volume, monkeypatch, number):
    """What it has written may not be kept for a later run."""

    def fails(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("cfetch.storage.directory.flush_file_system", fails)
    assert not volume.lost_writes
    with pytest.raises(LocalFault, match=os.strerror(number)):
        volume.flush()
    assert volume.lost_writes


def test_a_name_that_is_refused_as_if_it_were_not_there_fails_alone(volume, root, monkeypatch):
    """As by the exFAT driver of FUSE; if the part is gone, something has removed it."""
    rename = os.rename

    def refuse(source, target, **where):
        if b"?" in target:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        rename(source, target, **where)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(Unstorable, match="takes no such name"):
        published(volume, "d/a?")
    published(volume, "d/b", 1)
    assert tree(root) == {"d/b": DATA}
    with pytest.raises(LocalFault, match="something removed it"):
        volume.publish("no-such-part", safe_path("c?"))


LINK = "0123456789abcdef" * 2


@pytest.mark.parametrize("validator", ['"v"', None])
def test_a_file_that_no_hash_vouches_for_tells_where_it_came_from(volume, root, validator):
    """The link's identity, the strong ETag and the size; nothing else, and no secret."""
    part = Part(volume, entry_of(0, "d/a", DATA, query="?sig=CANARY"))
    part.write(DATA)
    part.validator = validator
    part.publish()
    found = volume.sources.find(safe_path("d/a"))
    assert found is not None
    assert (found.etag, found.size_bytes) == (validator, len(DATA))
    raw = os.getxattr(root / "d/a", ATTRIBUTE)
    assert os.listxattr(root / "d/a") == [ATTRIBUTE]
    assert b"CANARY" not in raw
    assert b"origin.test" not in raw
    (root / "d/a").rename(root / "b")
    assert volume.sources.find(safe_path("b")) == found


def test_a_file_with_a_hash_tells_nothing(volume, root):
    """Its bytes prove it."""
    published(volume, "a", digest=True)
    assert os.listxattr(root / "a") == []
    assert volume.sources.find(safe_path("a")) is None


def test_a_source_fits_into_an_inode(tmp_path):
    """Of ext4 by default; a file with a larger attribute takes a block more, and twice the time."""
    source = SourceRecord(LINK, f'"{LINK}"', 1 << 40)
    with open(tmp_path / "a", "wb") as file:
        set_source(file.fileno(), source)
        assert source_of(file.fileno()) == source
        assert len(os.getxattr(file.fileno(), ATTRIBUTE)) <= 56
        for earlier in (
            b'{"identity":"%b","validator":"x"}' % LINK.encode(),
            b'["%b",null]' % base64.b64encode(bytes.fromhex(LINK)).rstrip(b"="),
        ):
            os.setxattr(file.fileno(), ATTRIBUTE, earlier)
            assert source_of(file.fileno()) == SourceRecord(LINK)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x01",
        b"\x01" + b"x" * 22 + b"\xff",
        b"{",
        b'{"identity":1}',
        b'{"identity":"x","validator":null,"more":1}',
        b"\xff",
        b'["x"]',
        b'["%b",null]' % (b"!" * 22),
    ],
)
def test_a_record_that_is_not_ours_is_none(volume, root, raw):
    """Whoever wrote it."""
    (root / "a").write_bytes(DATA)
    os.setxattr(root / "a", ATTRIBUTE, raw)
    assert volume.sources.find(safe_path("a")) is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("other", path)])
def test_what_is_no_file_has_no_record(volume, root, make):
    """It is not followed, and a pipe is not waited for."""
    (root / "other").write_bytes(DATA)
    os.setxattr(root / "other", ATTRIBUTE, b'{"identity":"x","validator":null}')
    assert volume.sources.find(safe_path("other")) == SourceRecord("x")
    make(root / "a")
    assert volume.sources.find(safe_path("a")) is None
    assert volume.sources.find(safe_path("none/at/all")) is None


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSPC, errno.EPERM])
def test_a_file_system_that_takes_no_attribute_is_no_fault(volume, root, monkeypatch, number):
    """The file is published all the same."""

    def fails(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "setxattr", fails)
    published(volume, "a")
    assert tree(root) == {"a": DATA}


def test_without_attributes_the_state_directory_tells_where_files_came_from(volume, root, monkeypatch):
    """Of each directory by itself, for a file of that size and time; a torn line costs one record."""
    for name in ("getxattr", "setxattr"):
        monkeypatch.delattr(os, name)
    for name in ("d/a", "d/b", "c"):
        published(volume, name)
    found = volume.sources.find(safe_path("d/a"))
    assert (found.etag, found.size_bytes) == (None, len(DATA))
    assert volume.sources.find(safe_path("d/b")).identity != found.identity
    assert len(list((root / ".cfetch/sources").iterdir())) == 2
    (root / "d/b").write_bytes(DATA)
    assert volume.sources.find(safe_path("d/b")) is None
    volume.supersede(safe_path("d/a"))
    assert volume.sources.find(safe_path("d/a")).identity == SUPERSEDED.identity
    log = root / ".cfetch/sources" / name_records("")
    log.write_bytes(log.read_bytes()[:-5])
    published(volume, "e")
    assert volume.sources.find(safe_path("c")) is None
    assert volume.sources.find(safe_path("e")) is not None


@pytest.mark.parametrize("etag", ['"' + "x" * 65 + '"', '"\udcff"', '"\u00e9"'])
def test_of_an_etag_that_is_long_or_strange_a_hash_is_kept(tmp_path, etag):
    """It tells other versions apart, and takes the room of a short one."""
    with open(tmp_path / "a", "wb") as file:
        set_source(file.fileno(), SourceRecord(LINK, etag, 5))
        source = source_of(file.fileno())
        assert len(os.getxattr(file.fileno(), ATTRIBUTE)) == 39
    assert source is not None
    assert source.etag is not None
    assert is_hash(source.etag)
    assert is_same(source.etag, etag)
    assert is_same(source.etag, f"W/{etag}")
    assert not is_same(source.etag, etag[:-1] + 'y"')


def test_the_probe_of_a_run_that_was_killed_is_removed(tmp_path):
    """It tells whether the disk is full; a kill in between leaves it."""
    probe = tmp_path / ".cfetch/.probe"
    probe.mkdir(parents=True)
    Directory(tmp_path, "attempts/i/0").close()
    assert not probe.exists()


@pytest.mark.parametrize("is_symlink", [False, True])
def test_what_stands_in_the_place_of_its_own_directory_is_named(tmp_path, is_symlink):
    """With the way out; a symlink is not followed."""
    (tmp_path / "elsewhere").mkdir()
    own = tmp_path / "to" / ".cfetch"
    own.parent.mkdir()
    own.symlink_to(tmp_path / "elsewhere") if is_symlink else own.write_text("mine")
    with pytest.raises(VolumeFault, match=rf"cannot write to {own}: .* move it, or name another --to"):
        Directory(own.parent, "attempts/i/0")
    assert [*(tmp_path / "elsewhere").iterdir()] == []


@pytest.mark.parametrize("had_record", [True, False])
def test_a_file_that_replaces_one_with_a_record_has_one_too(volume, root, had_record):
    """Else a list without hashes would fetch once more what one with hashes has repaired."""
    published(volume, "a", digest=not had_record)
    (root / "a").write_bytes(b"damaged")
    published(volume, "a", digest=True)
    source = volume.sources.find(safe_path("a"))
    assert (source and source.size_bytes) == (len(DATA) if had_record else None)


def test_what_a_list_with_hashes_has_brought_has_no_record(volume):
    """A list with sizes and other links recognises it; one that states neither brings it once more."""
    published(volume, "a", digest=True)
    bare, sized = (entry_of(0, "a", DATA, size=size, host="another") for size in (False, True))
    assert StandingFiles(volume).find([bare, sized]) == [None, "size"]
    published(volume, "a", size=False)
    assert StandingFiles(volume).find([entry_of(0, "a", DATA, size=False), sized]) == ["none", None]
