"""A release of GitHub: ``/repos/OWNER/NAME/releases/latest``, with the assets' sizes and SHA-256."""

from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import hash_fields, list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source


def read_github_release(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows: ``url``, ``path``, ``size`` and ``sha256``."""
    release = load_json(source, "the release")
    if isinstance(release, list):
        raise BrokenDocumentError(
            0, "it is a list of releases; give one of them, such as …/releases/latest or …/releases/tags/TAG"
        )
    for asset in list_objects(release, "assets"):
        fields = {
            "url": asset.get("browser_download_url"),
            "path": asset.get("name"),
            "size": asset.get("size"),
        }
        yield Row(0, fields | hash_fields(asset.get("digest")), "assets")
