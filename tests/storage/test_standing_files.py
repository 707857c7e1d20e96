"""Files that stand in place, found many at a time: what the one look says agrees with the careful one."""

import os

import pytest

from cfetch.base.secret import SecretUrl
from cfetch.storage import standing_proofs
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.resume import identity
from cfetch.storage.source_records import set_source
from cfetch.storage.standing_files import StandingFiles
from cfetch.storage.volume_values import SourceRecord, Standing
from tests.engine.drive import entry_of

DATA = b"0123456789"


@pytest.fixture
def search(volume):
    return StandingFiles(volume)


def stand(root, path, data=DATA, link=None):
    """Put a file there; ``link``: where it says that it came from."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(data)
    if link is not None:
        with open(root / path, "rb") as file:
            set_source(file.fileno(), SourceRecord(identity(SecretUrl(link)), size_bytes=len(data)))


async def test_it_never_says_more_than_the_careful_look(volume, root, search):
    """By size, kind, hash and link; for what it leaves open the careful look is asked."""
    stand(root, "d/right")
    stand(root, "d/short", DATA[1:])
    stand(root, "d/hashed")
    stand(root, "from/its-link", link="http://origin.test/from/its-link")
    stand(root, "from/a-mirror", link="http://mirror.test/x")
    stand(root, "from/elsewhere", link="http://elsewhere.test/x")
    stand(root, "from/cut", link="http://origin.test/from/cut")
    os.truncate(root / "from/cut", 3)
    os.symlink("right", root / "d/symlink")
    os.symlink("d", root / "through")
    entries = [
        entry_of(0, "d/right", DATA),
        entry_of(1, "d/short", DATA),
        entry_of(2, "d/hashed", DATA, digest=True),
        entry_of(3, "d/right", DATA, size=False),
        entry_of(4, "d/symlink", DATA),
        entry_of(5, "through/right", DATA),
        entry_of(6, "none/at/all", DATA),
        entry_of(7, "from/its-link", DATA),
        entry_of(8, "from/a-mirror", DATA, mirrors=(SecretUrl("http://mirror.test/x"),)),
        entry_of(9, "from/elsewhere", DATA),
        entry_of(10, "d/right", DATA),
        entry_of(11, "from/its-link", DATA, size=False),
        entry_of(12, "from/elsewhere", DATA, size=False),
        entry_of(13, "from/cut", DATA, size=False),
    ]
    found = search.find(entries)
    assert found == ["size", None, "sha256"] + [None] * 4 + ["size", "size", None, "size", "none", None, None]
    careful = DirectoryVolume(volume, durable=False)
    for entry, vouched_for in zip(entries, found, strict=True):
        if vouched_for is not None:
            assert await careful.verify_existing(entry) == Standing(vouched_for)


def test_a_hash_is_computed_of_small_files_only(root, search, monkeypatch):
    """Other bytes of the right size, a longer file and a large one are left to the careful look."""
    stand(root, "right")
    stand(root, "other", DATA[::-1])
    stand(root, "longer", DATA + b"x")
    os.mkfifo(root / "fifo")
    names = ["right", "other", "longer", "fifo", "none"]
    entries = [entry_of(n, name, DATA, digest=True) for n, name in enumerate(names)]
    unsized = [entry_of(n, name, DATA, digest=True, size=False) for n, name in enumerate(names)]
    assert search.find(entries) == search.find(unsized) == ["sha256", None, None, None, None]
    monkeypatch.setattr(standing_proofs, "MOST_HASHED_BYTES", len(DATA) - 1)
    assert search.find(entries[:1]) == [None]


def test_a_file_that_grows_while_it_is_read_is_not_taken(root, search, monkeypatch):
    """Its bytes to the end are hashed, not only as many as it had at first."""
    stand(root, "a")
    real = os.open

    def grow(name, *args, **how):
        if name == b"a":
            with open(root / "a", "ab") as file:
                file.write(b"more")
        return real(name, *args, **how)

    monkeypatch.setattr(os, "open", grow)
    assert search.find([entry_of(0, "a", DATA, digest=True, size=False)]) == [None]


def test_each_directory_is_looked_at_once(root, search, monkeypatch):
    """However many files of it are looked for, two calls are made for each."""
    for number in range(50):
        stand(root, f"deep/er/{number}", link=f"http://origin.test/deep/er/{number}")
    entries = [entry_of(number, f"deep/er/{number}", DATA) for number in range(50)]
    calls = []

    def count(real):
        def call(*args, **how):
            calls.append(real)
            return real(*args, **how)

        return call

    for name in ("stat", "open", "getxattr"):
        monkeypatch.setattr(os, name, count(getattr(os, name)))
    assert search.find(entries) == ["size"] * 50
    assert len(calls) <= 2 * 50 + 8


def test_a_new_directory_has_nothing_to_look_for(root, search):
    """What is cfetch's own does not count."""
    assert (root / ".cfetch").exists()
    assert not search.has_any()
    stand(root, "a")
    assert search.has_any()


def test_a_system_that_refuses_attributes_by_name_is_asked_by_descriptor(root, search, monkeypatch):
    """A file from elsewhere is not taken for good where one way fails."""
    stand(root, "a", link="http://elsewhere.test/x")
    real = os.getxattr

    def refuse(name, *args, **how):
        if not isinstance(name, int):
            raise OSError(36, "File name too long")
        return real(name, *args, **how)

    monkeypatch.setattr(os, "getxattr", refuse)
    assert search.find([entry_of(0, "a", DATA)]) == [None]
