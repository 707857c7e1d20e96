"""Makes the JSON Schema files of ``cfetch/schemas`` from the types of the documents.

``python -m tests.show.schema_files`` writes them anew, after a type has changed.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

import cfetch
from cfetch.base.records import EndRecord, EventRecord, FileRecord, Summary
from cfetch.plugins.lab.views.bench_document import CleanBench, Comparison
from cfetch.plugins.lab.views.simulation_document import Simulation
from cfetch.plugins.lab.views.tuning_document import Tuning
from cfetch.show.doctor_view import Diagnosis
from cfetch.show.document import Report
from cfetch.show.metrics import RunHeader
from cfetch.show.plan_view import Plans, Preview, Scheduled
from cfetch.show.volume_view import BatchMoves, VolumesDocument, Whereabouts
from cfetch.storage.volume_values import BatchRecord

__all__ = ["DOCUMENTS", "FOLDER", "make_schema"]

FOLDER = Path(cfetch.__file__).parent / "schemas"
DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "batch": BatchRecord,
    "batch-moves": BatchMoves,
    "bench": Comparison,
    "bench-clean": CleanBench,
    "doctor": Diagnosis,
    "end": EndRecord,
    "event": EventRecord,
    "file": FileRecord,
    "plans": Plans,
    "preview": Preview,
    "report": Report,
    "run": RunHeader,
    "scheduled": Scheduled,
    "simulation": Simulation,
    "summary": Summary,
    "tuning": Tuning,
    "volumes": VolumesDocument,
    "whereabouts": Whereabouts,
}


ANY = {"description": "any value"}  # of settings


def make_schema(name: str) -> str:
    """The schema of ``cfetch.<name>/1`` as text. Keys that are not named in it come from a later version."""
    schema: dict[str, Any] = msgspec.json.schema(DOCUMENTS[name], schema_hook=lambda _: ANY)
    for definition in schema["$defs"].values():
        definition.pop("description", None)  # the docstrings are for readers of the code
    top = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    top["properties"]["schema"] = {"const": f"cfetch.{name}/1"}
    top["required"] = ["schema", *(key for key in top.get("required", []) if key != "schema")]
    _sort_choices(schema)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"cfetch.{name}/1"}
    return json.dumps({**head, **schema}, indent=1, ensure_ascii=False) + "\n"


def _sort_choices(part: Any) -> None:
    """Put null last among the choices of a value: the releases of msgspec differ in that."""
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _sort_choices(each)
    if isinstance(part, dict) and "anyOf" in part:
        part["anyOf"].sort(key=lambda choice: choice == {"type": "null"})


if __name__ == "__main__":
    for name in DOCUMENTS:
        (FOLDER / f"{name}.json").write_text(make_schema(name), encoding="utf-8")
