"""A dataset of a Dataverse: ``/api/datasets/:persistentId/?persistentId=doi:…``, or its ``versions/…/files``.

URLs are relative to the installation. A table that Dataverse has converted is fetched as it was uploaded, as
the stated hash is of the uploaded file.
"""

from collections.abc import Iterator
from typing import Any

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import Hashes, get_object, list_objects, load_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source


def read_dataverse(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and a hash."""
    dataset = load_object(source, "the dataset")
    data = dataset.get("data")
    version = get_object(data, "latestVersion") or data
    files = list(list_objects(version, None if isinstance(version, list) else "files"))
    total = dataset.get("totalCount")
    if isinstance(total, int) and total != len(files):
        document.note_partial(f"it has {len(files)} of {total} files; ask for it without a limit")
    restricted = sum(file.get("restricted") is True for file in files)
    if restricted:
        document.notes.append(
            f"files that are restricted: {restricted}; they need a token: --header 'X-Dataverse-key: …'"
        )
    hashes = Hashes()
    for file in files:
        yield Row(0, _fields(file, get_object(file, "dataFile"), hashes), "files")
    document.notes += hashes.list_notes()


def _fields(file: dict[str, Any], data_file: dict[str, Any], hashes: Hashes) -> dict[str, object]:
    is_converted = "originalFileFormat" in data_file
    name = data_file.get("originalFileName" if is_converted else "filename") or file.get("label")
    directory = file.get("directoryLabel")
    number = data_file.get("id")
    checksum = get_object(data_file, "checksum")
    return {
        "url": f"/api/access/datafile/{number}{'?format=original' if is_converted else ''}"
        if isinstance(number, int)
        else None,
        "path": f"{directory}/{name}" if isinstance(directory, str) and directory else name,
        "size": data_file.get("originalFileSize" if is_converted else "filesize"),
        **(
            hashes.read_named(checksum.get("type"), checksum.get("value"))
            or ({"md5": data_file["md5"]} if data_file.get("md5") else {})
        ),
    }
