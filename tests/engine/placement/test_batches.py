"""What is cut where, and the laws of every cut."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cfetch.engine.placement.batches import FRACTION, SMALLEST_FRACTION, cut, fit_fraction
from cfetch.engine.placement.chooser import Mode, VolumeState, choose


def shape(result):
    """The entries of each batch."""
    return [list(result.entries(batch)) for batch in range(len(result.bytes))]


def test_unnamed_entries_fill_a_batch_up_to_the_cap():
    """The cap is a fraction of all bytes; exactly full is not too full."""
    result = cut([10, 10, 5, 10, 10, 10, 5, 40], None, fraction=0.25)  # of 100: 25
    assert shape(result) == [[0, 1, 2], [3, 4], [5, 6], [7]]
    assert list(result.bytes) == [25, 20, 15, 40]
    assert list(result.files) == [3, 2, 2, 1]
    assert list(result.batch_of) == [0, 0, 0, 1, 1, 2, 2, 3]


def test_a_large_entry_is_alone_and_closes_nothing():
    """At the cap is large already; the batch that is being filled goes on after it."""
    result = cut([5, 25, 5, 30, 5, 30], None, fraction=0.25)
    assert shape(result) == [[0, 2, 4], [1], [3], [5]]
    assert shape(cut([0, 25, 75], None, fraction=0.25)) == [[0], [1], [2]]


def test_the_number_of_files_is_a_cap_too():
    """So that small files do not wait long for their commit."""
    assert shape(cut([0] * 5, None, most_files=2)) == [[0, 1], [2, 3], [4]]
    assert len(cut([1] * 100_000, None).bytes) == 100


def test_named_batches_are_never_cut():
    """However large; the others are filled beside them. Numbers are by first appearance."""
    result = cut([10, 90, 10, 90, 10, 0], [-1, 1, -1, 1, 0, 1], fraction=0.1)
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
def test_every_cut_keeps_its_laws(rows, fraction, most_files):
    """Each entry is in one batch; names stay whole; the rest is under both caps or alone."""
    names = sorted({name for _, name in rows if name >= 0})
    sizes = [size for size, _ in rows]
    named = [names.index(name) if name >= 0 else -1 for _, name in rows]
    result = cut(sizes, named, fraction=fraction, most_files=most_files)
    known = [size for size in sizes if size >= 0]
    counted = [size if size >= 0 else max(1, sum(known) // len(known) if known else 1) for size in sizes]
    cap = max(1, int(fraction * sum(counted)))
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


def place_all(result, rooms):
    """The bytes that find no volume if the batches arrive in their order, and volumes are equally fast."""
    volumes = [VolumeState(room_bytes=room) for room in rooms]
    unplaced = 0
    for batch in result.order:
        size, files = result.bytes[batch], result.files[batch]
        at = choose(volumes, size, files, mode=Mode.FINISH).index
        if at is None:
            unplaced += size
        else:
            volumes[at] = replace(volumes[at], load_bytes=volumes[at].load_bytes + size)
    return unplaced


def test_nearly_full_volumes_get_smaller_batches():
    """400 files of 1 MiB for 12 volumes of 37 MiB: with fifty batches two of them would fit nowhere."""
    sizes, rooms = [1 << 20] * 400, [37 << 20] * 12
    spare = sum(rooms) - sum(sizes)
    assert place_all(cut(sizes, None, fraction=FRACTION), rooms) == 16 << 20
    fraction = fit_fraction(FRACTION, sum(sizes), spare, len(rooms))
    assert place_all(cut(sizes, None, fraction=fraction), rooms) == 0
    assert fit_fraction(FRACTION, sum(sizes), 10 * sum(sizes), len(rooms)) == FRACTION


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    st.integers(1, 8),
    st.sampled_from([0.02, 0.5, 1.0]),
)
def test_all_batches_fit_whatever_the_sizes(files, count, most):
    """If the files are small against the space that is left: a file is never divided."""
    spare = count * max(*files, round(sum(files) * SMALLEST_FRACTION))
    fraction = fit_fraction(most, sum(files), spare, count)
    rooms = [-(-(sum(files) + spare) // count)] * count
    assert place_all(cut(files, None, fraction=fraction), rooms) == 0


def test_a_later_run_cuts_the_same_batches():
    """Though a record and the metrics have taken some of the space meanwhile."""
    assert (
        fit_fraction(FRACTION, 1 << 40, 1 << 36, 8)
        == fit_fraction(FRACTION, 1 << 40, (1 << 36) - (1 << 20), 8)
        < FRACTION
    )
