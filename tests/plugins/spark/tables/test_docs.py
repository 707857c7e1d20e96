"""docs/metrics-tables.md says what the code does: the columns of every table, and examples that run."""

import inspect
import re
from pathlib import Path

import pytest

from cfetch.plugins.spark.tables import tables
from cfetch.plugins.spark.tables.columns import DAY, TABLES, VERDICTS
from cfetch.plugins.spark.tables.load import load
from tests.plugins.lab.tuning.records import metrics_file

DOCUMENT = (Path(__file__).parents[4] / "docs/metrics-tables.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


RUN, ENTRY = TABLES["events"][:3], TABLES["files"][3:7]
SHARED = (*RUN, *ENTRY, DAY)


def columns_told(name):
    """Name, type and meaning of each row below a table's heading."""
    told = re.search(rf"### {name}: .*?\n\n(\|.*?)\n(?:\n|$)", DOCUMENT, re.DOTALL)
    assert told is not None
    rows = [re.fullmatch(r"\| `(\w+)` `(\S+)` \| (.+) \|", row) for row in told[1].splitlines()[2:]]
    return [row and (row[1], row[2], row[3].strip("`")) for row in rows]


def columns_of(columns):
    """The same of the code's list."""
    return [(column.name, column.type, column.meaning.strip("`")) for column in columns]


def test_shared_columns_are_the_codes():
    """The columns that the document lists once are in each of the tables that it says have them."""
    assert columns_told("shared columns") == columns_of(SHARED)
    assert all(set(RUN) <= set(TABLES[name]) for name in ("files", "attempts", "events", "runs"))
    assert all(set(ENTRY) <= set(TABLES[name]) for name in ("files", "attempts"))
    assert {*RUN, *ENTRY, DAY} - set(VERDICTS) == {RUN[2], ENTRY[3]}
    assert set(SHARED).isdisjoint(TABLES["rejected"])
    assert set(ENTRY).isdisjoint((*TABLES["events"], *TABLES["runs"]))


@pytest.mark.parametrize("name", [*TABLES, "verdicts"])
def test_columns_are_the_codes(name):
    """Name, type, meaning and order."""
    columns = VERDICTS if name == "verdicts" else TABLES[name]
    assert columns_told(name) == columns_of(column for column in columns if column not in SHARED)


def test_examples_run(spark, tmp_path, monkeypatch, capsys):
    """Every public function has an example, and it prints a table."""
    load([metrics_file(tmp_path / "m.jsonl")], tmp_path / "tables", spark)
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        names = {"spark": spark}
        exec(example.replace('"tables"', repr(str(tmp_path / "tables"))), names)
        out = capsys.readouterr().out
        assert out.startswith("+--")
        assert out.count("\n+--") + 1 == 3 * example.count(".show(")  # each table has three such lines
    used = set(re.findall(r"\b(\w+)\(", "".join(EXAMPLES)))
    public = {
        name
        for name, value in vars(tables).items()
        if inspect.isfunction(value) and value.__module__ == tables.__name__ and not name.startswith("_")
    }
    assert len(public) > 2
    assert public <= used
