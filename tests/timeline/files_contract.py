"""What the timeline needs of its files, wherever they are: a disk, a bucket, or the simulation's disk."""

import pytest


def check_operations(files):
    """Carry out each operation, also where it has to fail; the directory is empty but for ``a/g`` then."""
    with pytest.raises(FileNotFoundError):
        files.create("a/b/f", b"")
    files.make_directory("a/b")
    files.make_directory("a/b")
    files.create("a/b/f", b"12345", flush=True)
    with pytest.raises(FileExistsError):
        files.create("a/b/f", b"")
    files.link("a/b/f", "a/g")
    with pytest.raises(FileExistsError):
        files.link("a/b/f", "a/g")
    files.rewrite("a/g", b"123", b"123xx")
    for path, head in (("a/g", b"2"), ("a/h", b"")):
        with pytest.raises(FileNotFoundError):
            files.rewrite(path, head, b"yyyyy")
    assert files.read("a/g") == b"123xx"
    assert sorted(files.names("a")) == ["b", "g"]
    assert files.names(".") == ["a"]
    assert files.names("nothing") == []
    with pytest.raises(OSError):
        files.remove_directory("a/b")
    files.unlink("a/b/f")
    files.remove_directory("a/b")
    for operation in (files.unlink, files.read, files.modified_s, files.remove_directory):
        with pytest.raises(FileNotFoundError):
            operation("a/b")
    with pytest.raises(FileNotFoundError):
        files.rename("a/g", "a/b/g")
    assert isinstance(files.modified_s("a/g"), float)
