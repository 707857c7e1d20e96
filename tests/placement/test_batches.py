"""What is cut where, and the laws of every cut."""

from hypothesis import given
from hypothesis import strategies as st

from cfetch.placement.batches import cut


def shape(result):
    """The entries of each batch."""
    return [list(result.entries(batch)) for batch in range(len(result.bytes))]


def test_unnamed_entries_fill_a_batch_up_to_the_cap():
    """The cap is a share of all bytes; exactly full is not too full."""
    result = cut([10, 10, 5, 10, 10, 10, 5, 40], None, share=0.25)  # of 100: 25
    assert shape(result) == [[0, 1, 2], [3, 4], [5, 6], [7]]
    assert list(result.bytes) == [25, 20, 15, 40]
    assert list(result.files) == [3, 2, 2, 1]
    assert list(result.batch_of) == [0, 0, 0, 1, 1, 2, 2, 3]


def test_a_large_entry_is_alone_and_closes_nothing():
    """At the cap is large already; the batch that is being filled goes on after it."""
    result = cut([5, 25, 5, 30, 5, 30], None, share=0.25)
    assert shape(result) == [[0, 2, 4], [1], [3], [5]]
    assert shape(cut([0, 25, 75], None, share=0.25)) == [[0], [1], [2]]


def test_the_number_of_files_is_a_cap_too():
    """So that small files do not wait long for their commit."""
    assert shape(cut([0] * 5, None, most_files=2)) == [[0, 1], [2, 3], [4]]
    assert len(cut([1] * 100_000, None).bytes) == 100


def test_named_batches_are_never_cut():
    """However large; the others are filled beside them. Numbers are by first appearance."""
    result = cut([10, 90, 10, 90, 10, 0], [-1, 1, -1, 1, 0, 1], share=0.1)
    assert shape(result) == [[0, 2], [1, 3, 5], [4]]
    assert list(result.named) == [0, 1, 1]
    assert list(result.bytes) == [20, 180, 10]


def test_an_unknown_size_counts_as_the_mean_of_the_known():
    """And as 1 when none is known, or when all known are empty."""
    assert list(cut([10, -1, 21], [0, 1, 2]).bytes) == [10, 15, 21]
    assert list(cut([-1, -1], [0, 1]).bytes) == [1, 1]
    assert list(cut([0, -1], [0, 1]).bytes) == [0, 1]
    assert shape(cut([-1] * 100, None)) == [[2 * batch, 2 * batch + 1] for batch in range(50)]


def test_the_largest_batch_arrives_first():
    """The size-sorted option of B6 and B7; equal ones in their order."""
    assert list(cut([50, 30, 100, 30, 50], list(range(5))).order) == [2, 0, 4, 1, 3]
    assert shape(cut([], None)) == []


def test_four_or_eight_bytes_an_entry():
    """Millions of entries have to fit."""
    result = cut([1] * 10, None)
    assert result.batch_of.itemsize == result.members.itemsize == result.files.itemsize == 4
    assert result.bytes.itemsize == 8
    assert sum(cut([1 << 50] * 3, None).bytes) == 3 << 50


entries = st.lists(st.tuples(st.integers(-1, 60), st.integers(-1, 3)), max_size=40)


@given(entries, st.floats(0.01, 1.0), st.integers(1, 6))
def test_every_cut_keeps_its_laws(rows, share, most_files):
    """Each entry is in one batch; names stay whole; the rest is under both caps or alone."""
    names = sorted({name for _, name in rows if name >= 0})
    sizes = [size for size, _ in rows]
    named = [names.index(name) if name >= 0 else -1 for _, name in rows]
    result = cut(sizes, named, share=share, most_files=most_files)
    known = [size for size in sizes if size >= 0]
    counted = [size if size >= 0 else max(1, sum(known) // len(known) if known else 1) for size in sizes]
    cap = max(1, int(share * sum(counted)))
    batches = shape(result)
    assert sorted(entry for batch in batches for entry in batch) == list(range(len(rows)))
    assert [batch[0] for batch in batches] == sorted(batch[0] for batch in batches)
    for number, batch in enumerate(batches):
        assert batch == sorted(batch)
        assert all(result.batch_of[entry] == number for entry in batch)
        assert result.bytes[number] == sum(counted[entry] for entry in batch)
        assert result.files[number] == len(batch)
        its_names = {named[entry] for entry in batch}
        assert len(its_names) == 1
        assert result.named[number] == (its_names != {-1})
        if its_names == {-1}:
            assert len(batch) <= most_files
            assert len(batch) == 1 or result.bytes[number] <= cap
        else:
            assert len(batch) == named.count(named[batch[0]])
    assert list(result.order) == sorted(
        range(len(batches)), key=lambda number: (-result.bytes[number], number)
    )
