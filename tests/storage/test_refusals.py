"""What a refusal of the system means: for one file, or for the volume."""

import errno
import os

import pytest

from cfetch.base.errors import Blocked, Unstorable, VolumeFault
from cfetch.manifest.entry import safe_path
from cfetch.storage.refusals import IN_A_ROW, NameRefusals

A, B, C = safe_path("a"), safe_path("b"), safe_path("c")


def refused(number):
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EISDIR, Blocked),
        (errno.ENOTDIR, Blocked),
        (errno.ELOOP, Blocked),
        (errno.ENAMETOOLONG, Unstorable),
        (errno.EINVAL, Unstorable),
        (errno.EILSEQ, Unstorable),
        (errno.EACCES, Unstorable),
        (errno.EDQUOT, Unstorable),
        (errno.ENOSPC, VolumeFault),
        (errno.EROFS, VolumeFault),
        (errno.EIO, VolumeFault),
        (errno.ENOTCONN, VolumeFault),
    ],
)
def test_what_a_refused_name_means(number, kind):
    """A name that is not taken is that file's failure, however often; a broken disk is the volume's."""
    refusals = NameRefusals(spares_entries=True)
    errors = [refusals.judge_name(refused(number), A, "cannot put a in place") for _ in range(5)]
    assert {type(error) for error in errors} == {kind}


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EFBIG, Unstorable),
        (errno.EDQUOT, Unstorable),
        (errno.EINVAL, VolumeFault),
        (errno.ENOSPC, VolumeFault),
        (errno.EIO, VolumeFault),
    ],
)
def test_what_refused_bytes_mean(number, kind):
    """A file that is too large is that file's failure."""
    assert type(NameRefusals(spares_entries=True).judge_bytes(refused(number), A, "cannot write a")) is kind


def test_three_files_in_a_row_end_the_volume():
    """If their permission or quota is refused; a file in place between them begins a new row."""
    refusals = NameRefusals(spares_entries=True)
    meant = []
    for path in (A, B, None, A, B, C):
        if path is None:
            refusals.note_success()
        else:
            meant.append(type(refusals.judge_bytes(refused(errno.EDQUOT), path, "cannot write it")))
    assert meant == [*[Unstorable] * 4, VolumeFault]
    assert IN_A_ROW == 3


def test_files_too_large_never_end_the_volume():
    """The largest files come first, and each of them may be too large."""
    refusals = NameRefusals(spares_entries=True)
    errors = [refusals.judge_bytes(refused(errno.EFBIG), path, "cannot write it") for path in (A, B, C)]
    assert {type(error) for error in errors} == {Unstorable}


def test_where_another_volume_may_take_the_file_the_volume_failed():
    """Its batch goes there, then."""
    refusals = NameRefusals(spares_entries=False)
    errors = [refusals.judge_bytes(refused(number), A, "") for number in (errno.EFBIG, errno.EDQUOT)]
    assert {type(error) for error in errors} == {VolumeFault}
