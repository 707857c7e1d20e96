"""The tree of a Hugging Face repository: ``/api/datasets/OWNER/NAME/tree/REVISION?recursive=true``.

URLs are relative to the repository's ``resolve`` address, which follows from the tree's own address.
"""

import re
from collections.abc import Iterator

from cfetch.base.schemes import HF, WEB_PATTERN
from cfetch.base.secret import printable
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import get_object, list_objects, load_json
from cfetch.manifest.repository_urls import find_git_hash
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

PAGE = 1000  # entries in one answer; a longer tree goes on in another answer
_TREE = re.compile(
    rf"(?P<host>{WEB_PATTERN}://[^/]+)/api/(?P<kind>datasets|spaces|models)/(?P<name>[^?]+)/tree/(?P<revision>[^/?]+)"
)


def read_huggingface_tree(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size``, and ``sha256`` for large files or ``git_sha1`` for others."""
    match = _TREE.match(source.own_url or "")
    if match:
        kind = "" if match["kind"] == "models" else f"{match['kind']}/"
        document.base_url = f"{match['host']}/{kind}{match['name']}/resolve/{match['revision']}/"
    tree = load_json(source, "the tree")
    if isinstance(tree, dict):
        name = printable(str(tree.get("id")))
        raise BrokenDocumentError(
            0,
            "it describes a repository, without the sizes of its files; give the repository as the manifest: "
            f"{HF}://{name}/ if it is a model, {HF}://datasets/{name}/ if it is a "
            "data set",
        )
    entries = list(list_objects(tree))
    if len(entries) == PAGE:
        document.note_partial(f"the tree has {PAGE} entries, as many as one answer holds: it may go on")
    listed = {str(entry.get("path")).rpartition("/")[0] for entry in entries}
    closed = sum(
        entry.get("type") == "directory" and str(entry.get("path")) not in listed for entry in entries
    )
    if closed:
        document.note_partial(
            f"directories that are left out: {closed}; ask for the tree with ?recursive=true"
        )
    for entry in entries:
        path = entry.get("path")
        if entry.get("type") != "file" or not isinstance(path, str):
            continue
        large = get_object(entry, "lfs")
        fields = {"url": make_relative_url(path), "path": path, "size": large.get("size", entry.get("size"))}
        stated = {"sha256": large.get("oid")} if large else find_git_hash(entry.get("oid"), fields["size"])
        yield Row(0, fields | stated, "files")
