"""How many files may be deleted because a source lacks them."""

import pytest

from cfetch.app.delete_limit import DeleteLimit, count_allowed


@pytest.mark.parametrize(
    ("most", "files", "allowed"),
    [
        (0.1, 1000, 100),
        (0.1, 50, 10),
        (0.1, 0, 10),
        (0.29, 100, 29),
        (1.0, 7, 10),
        (0, 1000, 0),
        (3, 1000, 3),
    ],
)
def test_a_share_allows_a_few_in_any_case(most, files, allowed):
    """A number is meant as it is."""
    assert count_allowed(most, files) == allowed


def test_deletes_add_up_within_an_hour():
    """Those that are refused do not count. The files are counted once an hour, if there is a delete."""
    limit = DeleteLimit(0.1)
    asked: list[int] = []

    def count():
        asked.append(1)
        return 200

    assert limit.take(0, 0.0, count) is None
    assert asked == []
    assert [limit.take(15, float(n), count) is None for n in range(3)] == [True, False, False]
    assert limit.take(5, 100.0, count) is None
    refusal = limit.take(1, 3600.0, count)
    assert refusal is not None
    assert "21 files" in refusal
    assert asked == [1]
    assert limit.take(20, 3601.0, count) is None
    assert asked == [1, 1]
