"""Parquet: native keys as columns, typed or as text; what is wrong names its row."""

import io
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfetch.base.errors import UsageError
from cfetch.manifest.reading import read_entries
from cfetch.plugins.formats import parquet_table

SHA = "ab" * 32
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def parquet(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def test_typed_columns(frozen):
    """Integers of any width, timestamps, maps, lists and dictionaries read; a null is a key not given."""
    data = parquet(
        {
            "url": pa.array(["http://h/a", "http://h/b"]).dictionary_encode(),
            "size": pa.array([7, None], pa.int32()),
            "offset": pa.array([2**63 - 1, 0], pa.uint64()),
            "path": ["d/a", None],
            "sha256": [SHA, None],
            "expires_at": pa.array([MOMENT, None], pa.timestamp("ns", "UTC")),
            "batch": [None, "s"],
            "headers": pa.array([{"X": "1"}, None], pa.map_(pa.string(), pa.string())),
            "mirrors": [["http://m/a"], []],
        }
    )
    plan = frozen(data, "-")
    a, b = plan.entry(0), plan.entry(1)
    assert (a.url.reveal(), a.size_bytes, a.offset, a.path, a.digest.hex) == (
        "http://h/a",
        7,
        2**63 - 1,
        "d/a",
        SHA,
    )
    assert a.expires_at == MOMENT.timestamp()
    assert [(n, v.reveal()) for n, v in a.headers] == [("X", "1")]
    assert [m.reveal() for m in a.mirrors] == ["http://m/a"]
    assert (b.path, b.size_bytes, b.digest, b.expires_at, b.batch, b.headers, b.mirrors) == (
        "b", None, None, None, "s", (), (),
    )  # fmt: skip


def test_whole_numbers_as_floats(frozen):
    """As pandas writes a column of whole numbers with gaps."""
    columns = {"url": ["http://h/a", "http://h/b", "http://h/c"], "size": [7.0, None, 2.0**53 - 1]}
    plan = frozen(parquet(columns), "m.parquet")
    assert [plan.entry(i).size_bytes for i in range(3)] == [7, None, 2**53 - 1]


def test_columns_of_text(frozen):
    """Headers and mirrors may be JSON, headers a struct, and times ISO 8601, as in CSV."""
    data = parquet(
        {
            "url": ["http://h/a"],
            "mirrors": ['["http://m/a"]'],
            "headers": [{"X": "1", "Y": None}],
            "expires_at": ["2026-01-01T00:00:00Z"],
        }
    )
    entry = frozen(data, "-").entry(0)
    assert [m.reveal() for m in entry.mirrors] == ["http://m/a"]
    assert [(n, v.reveal()) for n, v in entry.headers] == [("X", "1")]
    assert entry.expires_at == MOMENT.timestamp()


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("rows", [1, 700])
def test_kinds_of_text(frozen, text, rows):
    """Text of every kind that a writer may choose reads, alone and in lists, in every batch."""
    urls = [f"http://h/{number}" for number in range(rows)]
    columns = {"url": pa.array(urls, text), "mirrors": pa.array([["http://m/e"]] * rows, pa.list_(text))}
    try:
        data = parquet(columns)
    except pa.ArrowNotImplementedError:  # pyarrow 18 cannot write what newer ones can
        pytest.skip(f"pyarrow {pa.__version__} writes no {text}")
    plan = frozen(data, "-")
    assert [plan.entry(number).url.reveal() for number in range(rows)] == urls
    assert {plan.entry(number).mirrors[0].reveal() for number in range(rows)} == {"http://m/e"}


def test_a_row_with_one_long_text_among_others(error_of):
    """The rows before and behind a row that is too long are read, and only it is a fault."""
    urls = ["http://h/a", "http://h/" + "b" * (1 << 20), "http://h/c", None]
    error = error_of(parquet({"url": urls}), "m.parquet")
    assert [problem.message.partition(":")[0] for problem in error.problems] == ["rows[1]", "rows[3]"]


def test_lists_that_stay_dictionaries(frozen):
    """One long value for many lists is held once, and each list has it."""
    long = "http://m/" + "a" * 70_000
    data = parquet(
        {"url": [f"http://h/{n}" for n in range(600)], "mirrors": [[long]] * 600}, compression="zstd"
    )
    plan = frozen(data, "-")
    assert len(plan) == 600
    assert plan.entry(599).mirrors[0].reveal() == long


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"url": ["http://h/a", "sftp://h/b"]}, "rows[1]: url"),
        ({"url": ["http://h/a", None]}, "rows[1]: url"),
        ({"url": ["http://h/a", "http://h/b"], "size": [1, -2]}, "rows[1]: size"),
        ({"url": ["http://h/a", "http://h/b"], "size": [1.0, 1.5]}, "rows[1]: size"),
        ({"url": ["http://h/b"], "size": [2.0**53]}, "rows[0]: size"),
        ({"url": [["http://h/b"]]}, "the column 'url' holds nested values, which url cannot be"),
        (
            {"url": ["http://h/b"], "md5": pa.array([b"1"], pa.binary(1))},
            "values of the type fixed_size_binary[1]",
        ),
        ({"url": ["http://h/b"], "size": [True]}, "rows[0]: size"),
        ({"url": ["http://h/b"], "path": [b"a"]}, "rows[0]: path"),
        ({"url": ["http://h/b"], "expires_at": [datetime(2026, 1, 1)]}, "time zone"),  # noqa: DTZ001
        ({"url": ["http://h/b"], "headers": ["{"]}, "not JSON"),
        (
            {
                "url": ["http://h/b"],
                "headers": pa.array([[("X", "1"), ("X", "2")]], pa.map_("string", "string")),
            },
            "given twice",
        ),
        ({"url": ["http://h/" + "b" * (1 << 20)]}, "characters"),
        ({"path": ["a"]}, "column url is missing"),
        ({"url": ["http://h/b"], "sise": [1]}, "'size'"),
    ],
)
def test_faults(error_of, columns, word):
    """A cell that its key does not take is a fault with its row; a column nobody knows is one for all."""
    error = error_of(parquet(columns), "m.parquet")
    assert error.total == 1
    assert word in error.problems[0].message


def test_broken_tables(error_of):
    """A table that was cut or damaged anywhere is a fault, not a crash or a shorter manifest."""
    data = parquet({"url": [f"http://h/{i}" for i in range(300)]})
    for cut in range(4, len(data), 97):
        assert error_of(data[:cut], "m.parquet").total == 1
        middle = data[:cut] + b"\xff" * 16 + data[cut + 16 :]
        try:
            list(read_entries(io.BytesIO(middle), name="m.parquet"))
        except Exception as error:
            assert type(error).__name__ == "ManifestError"  # noqa: PT017 - undamaged bytes may still read


def test_row_groups_stream(frozen):
    """Rows of many groups keep their order and numbers."""
    data = parquet({"url": [f"http://h/{i}" for i in range(3000)]}, row_group_size=700)
    plan = frozen(data, "-")
    assert [plan.entry(i).path for i in range(3000)] == [str(i) for i in range(3000)]


def test_missing_library(monkeypatch):
    """Without pyarrow the message says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"cfetch\[parquet\]"):
        list(read_entries(io.BytesIO(b"PAR1"), name="-"))


def test_an_ordinary_table_is_read_in_full_batches(monkeypatch, frozen):
    """A large dictionary of short values does not make batches small, which would take ten times as long."""
    rows: list[int] = []
    read = parquet_table._read_batches

    def note(batches, *more, **options):
        def seen():
            for batch in batches:
                rows.append(len(batch))
                yield batch

        return read(seen(), *more, **options)

    monkeypatch.setattr(parquet_table, "_read_batches", note)
    urls = [f"https://h.example/{'a' * 60}/{number}" for number in range(12_000)]
    data = parquet(
        {"url": urls, "path": [f"p/{n}" for n in range(12_000)], "mirrors": [[url] for url in urls]}
    )
    assert len(frozen(data, "-")) == 12_000
    assert max(rows) == parquet_table.BATCH_ROWS
    assert len(rows) < 30
