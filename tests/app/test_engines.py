"""How many processes a run has: what is in place already is no work."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.app import engines, process_count
from cfetch.app.download import prepare
from cfetch.app.engines import choose_engine, count_processes
from cfetch.base.config.settings import Settings
from cfetch.manifest.plan import Plan
from cfetch.straggler.knowledge import NOTHING

FILES = 40


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A few files are many, and this machine has four processors."""
    monkeypatch.setattr(process_count, "LEAST_FILES", FILES // 4)
    monkeypatch.setattr(engines, "SAMPLE", FILES // 2)
    monkeypatch.setattr(engines, "count_cores", lambda: 4)


@pytest.mark.parametrize(
    ("in_place", "options", "processes"),
    [
        (0, {}, 2),
        (FILES // 2, {}, 2),
        (FILES // 2 + 2, {}, 1),
        (FILES, {}, 1),
        (FILES, {"processes": 3}, 3),
    ],
)
def test_files_in_place_are_no_work(tmp_path, in_place, options, processes):
    """By a sample; a stated number is obeyed."""
    names = [f"d/{number:03}" for number in range(FILES)]
    files = [{"url": f"https://h.example/{name}", "path": name, "size": 3} for name in names]
    (tmp_path / "m.json").write_text(json.dumps({"files": files}))
    (tmp_path / "to/d").mkdir(parents=True)
    for name in names[:in_place]:
        (tmp_path / "to" / name).write_bytes(b"abc")
    settings = Settings(to=(str(tmp_path / "to"),), **options)
    with prepare(str(tmp_path / "m.json"), settings, env={}) as prepared:
        assert isinstance(prepared.plan, Plan)
        assert count_processes(prepared.plan, prepared._context) == (processes, None)


def test_that_an_engine_which_takes_long_is_starting_is_said(monkeypatch):
    """A Spark session takes up to half a minute, before the run has anything to show."""
    monkeypatch.setattr("cfetch.app.task_engines.make_plugin_engine", lambda plan, context: (plan, context))
    plan: Any = "plan"
    context: Any = SimpleNamespace(settings=Settings(engine="spark"))
    engine: Any
    engine, note = choose_engine(plan, context, NOTHING)
    assert (engine, note) == ((plan, context), "starting Spark")
