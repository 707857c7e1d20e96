"""docs/metrics-tables.md says what the code does: the columns of every table, and examples that run."""

import inspect
import re
from pathlib import Path

import pytest

from cfetch.spark.tables import tables
from cfetch.spark.tables.columns import DAY, TABLES, VERDICTS
from cfetch.spark.tables.load import load
from tests.tuning.records import metrics_file

DOCUMENT = (Path(__file__).parents[3] / "docs/metrics-tables.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("name", [*TABLES, "verdicts"])
def test_columns_are_the_codes(name):
    """Name, type, meaning and order."""
    columns = VERDICTS if name == "verdicts" else TABLES[name] if name == "rejected" else (*TABLES[name], DAY)
    told = re.search(rf"### {name}: .*?\n\n(.*?)\n(?:\n|$)", DOCUMENT, re.DOTALL)
    assert told is not None
    rows = [
        tuple(cell.strip(" `") for cell in row.strip("|").split(" | ")) for row in told[1].splitlines()[2:]
    ]
    assert rows == [(one.name, one.type, one.meaning.strip("`")) for one in columns]


def test_examples_run(spark, tmp_path, monkeypatch, capsys):
    """Every public function has an example, and it prints a table."""
    load([metrics_file(tmp_path / "m.jsonl")], tmp_path / "tables", spark)
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        names = {"spark": spark}
        exec(example.replace('"tables"', repr(str(tmp_path / "tables"))), names)
        assert capsys.readouterr().out.startswith("+--")
    used = set(re.findall(r"\b(\w+)\(", "".join(EXAMPLES)))
    public = {
        name
        for name, value in vars(tables).items()
        if inspect.isfunction(value) and value.__module__ == tables.__name__ and not name.startswith("_")
    }
    assert len(public) > 2
    assert public <= used
