"""The JSON Schema files: they are the types of the documents, and real documents keep them."""

import json

import jsonschema
import pytest

from tests.app.command import cfetch
from tests.show.schema_files import DOCUMENTS, FOLDER, make_schema
from tests.tasks.scene import files_of, served

FILES = files_of(2)


def schema_of(document):
    """The packaged schema that the document names."""
    name = document["schema"].removeprefix("cfetch.").removesuffix("/1")
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_file_is_what_its_type_says(name):
    """After a change of a type: python -m tests.show.schema_files."""
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == make_schema(name)


def test_every_schema_is_one():
    """All files in the folder are schemas of the draft that they name, and known."""
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    assert files.keys() == DOCUMENTS.keys()
    for schema in files.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_real_documents_keep_their_schemas(tmp_path):
    """A run with a failure: preview, plan, summary, all lines of its metrics, and their report."""
    with served(FILES) as origin:
        (tmp_path / "urls.txt").write_text("".join(f"{origin.url}{name}\n" for name in (*FILES, "missing")))
        to = ("--to", tmp_path / "to", "--json")
        said = [
            cfetch("download", tmp_path / "urls.txt", *to, "--dry-run"),
            cfetch("plan", "schedule", tmp_path / "urls.txt", *to),
            cfetch("plan", "list", *to),
            cfetch("download", tmp_path / "urls.txt", *to, "--metrics", tmp_path / "m.jsonl"),
            cfetch("report", tmp_path / "m.jsonl", "--json"),
        ]
    assert [done.returncode for done in said] == [0, 0, 0, 1, 0]
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    documents = [json.loads(text) for text in (*(done.stdout for done in said), *lines)]
    kinds = [document["schema"] for document in documents]
    assert {f"cfetch.{name}/1" for name in ("preview", "scheduled", "plans", "summary", "report")} <= set(
        kinds
    )
    assert {"cfetch.run/1", "cfetch.file/1", "cfetch.end/1"} <= set(kinds)
    for document in documents:
        jsonschema.validate(document, schema_of(document))


@pytest.mark.parametrize(
    "damage", [{"status": "perhaps"}, {"id": "7"}, {"schema": "cfetch.file/2"}, {"path": None}]
)
def test_a_wrong_document_breaks_its_schema(damage):
    """Types, enumerations and the schema's own name are in the files."""
    document = {"schema": "cfetch.file/1", "instant": "i", "id": 0, "offset": 0, "path": "a", "host": "h",
                "size_bytes": None, "bytes": 0, "status": "done", "verified": "none", "volume": "v",
                "queued_s": 0.0, "start_s": 0.0, "end_s": 0.0, "rate_bps": 0.0, "stragglers": 0,
                "attempts": []}  # fmt: skip
    schema = schema_of(document)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | damage, schema)
