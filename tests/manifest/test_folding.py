"""Names that are one file on some file systems, and two on others."""

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest.folding import Folding, fold_path
from tests.manifest.test_plan import document

VFAT = Folding(ends=".", ignores=False)
SMB = Folding(ends=". ", ignores=True)


@pytest.mark.parametrize(
    ("paths", "folding"),
    [
        (("a", "a."), VFAT),
        (("a.", "A"), VFAT._replace(case=True)),
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
def test_names_that_are_one_file_clash(frozen, clashes_of, paths, folding):
    """Only where the destination makes one file of them; the other comes."""
    rows = document(*({"url": f"http://h/{index}", "path": path} for index, path in enumerate(paths)))
    [(_, message)] = clashes_of(rows, folding=folding)
    assert "are one file at the destination" in message or "is a file, and a directory for" in message
    left = frozen(rows, folding=folding, options=ReadingOptions(bad_rows="skip"), report=lambda *_: None)
    assert (len(left), left.skipped) == (1, 1)
    assert len(frozen(rows)) == 2


@pytest.mark.parametrize("paths", [("d./x", "d/y"), ("a.", "b."), ("...", "x"), ("a.b", "ab"), ("a.", "A")])
def test_other_names_are_left_alone(frozen, paths):
    """Files of one directory, dots that are no end of a name, and case where it is kept."""
    rows = document(*({"url": f"http://h/{index}", "path": path} for index, path in enumerate(paths)))
    assert [entry.path for entry in frozen(rows, folding=SMB).entries()] == list(paths)


@pytest.mark.parametrize("by_letter", [True, False])
def test_a_sharp_s_is_two_letters_only_where_the_destination_says_so(frozen, by_letter):
    """Other letters are one in both cases everywhere."""
    rows = document(*({"url": f"http://h/{n}", "path": path} for n, path in enumerate(["\u00df", "SS"])))
    folding = Folding(case=True, by_letter=by_letter)
    options = ReadingOptions(bad_rows="skip")
    assert len(frozen(rows, folding=folding, options=options, report=lambda *_: None)) == 1 + by_letter
    assert fold_path("\u00e9A", folding) == fold_path("\u00c9a", folding)
