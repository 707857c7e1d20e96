"""Names that are one file on some file systems, and two on others."""

import pytest

from cfetch.manifest.folding import KEEPS_NAMES, Folding, find_one_file

VFAT = Folding(ends=".", ignores=False)
SMB = Folding(ends=". ", ignores=True)


@pytest.mark.parametrize(
    ("paths", "folding"),
    [
        (("a", "a."), VFAT),
        (("a.", "A"), VFAT),
        (("b ", "b"), SMB),
        (("b. ", "b"), SMB),
        (("d./x", "d/x"), VFAT),
        (("d/x", "d."), VFAT),
        (("d.", "d/x"), VFAT),
        (("d", "d./x/y"), VFAT),
        (("d./x/y", "d"), VFAT),
        (("c\ufe0f", "c"), SMB),
        (("c\u034f", "c."), SMB),
    ],
)
def test_names_that_are_one_file_are_found(paths, folding):
    """Only where the destination makes one file of them."""
    found = find_one_file(lambda: paths, folding)
    assert found is not None
    assert set(found) == set(paths)
    assert find_one_file(lambda: paths, KEEPS_NAMES) is None


@pytest.mark.parametrize("paths", [("d./x", "d/y"), ("a.", "b."), ("a.", "a."), ("...", "x"), ("a.b", "ab")])
def test_other_names_are_left_alone(paths):
    """Files of one directory, pieces of one file, and dots that are no end of a name."""
    assert find_one_file(lambda: paths, SMB) is None
