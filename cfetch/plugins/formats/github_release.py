"""A release of GitHub: ``/repos/OWNER/NAME/releases/latest``, with the assets' sizes and SHA-256.

Also its list of assets, a single asset, and a release of GitLab, which states links only.
"""

from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import Hashes, get_object, list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

PAGE = 30  # assets in one answer of …/assets


def read_github_release(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and ``sha256``."""
    release = load_json(source, "the release")
    assets = list(list_objects(release))
    if assets and not any("browser_download_url" in asset for asset in assets):
        raise BrokenDocumentError(
            0, "it is a list of releases; give one of them, such as …/releases/latest or …/releases/tags/TAG"
        )
    if len(assets) == PAGE:
        document.note_partial(
            f"it has {PAGE} assets, as many as one answer holds: it may go on; give the release itself"
        )
    links = get_object(release, "assets").get("links")
    if links is not None:
        for link in list_objects(links):
            yield Row(
                0, {"url": link.get("direct_asset_url") or link.get("url"), "path": link.get("name")}, "links"
            )
        return
    if isinstance(release, dict):
        assets = [release] if "browser_download_url" in release else list(list_objects(release, "assets"))
    unfinished = sum(asset.get("state", "uploaded") != "uploaded" for asset in assets)
    if unfinished:
        document.note_partial(f"assets that are left out, because their upload has not ended: {unfinished}")
    hashes = Hashes()
    for asset in assets:
        if asset.get("state", "uploaded") == "uploaded":
            fields = {
                "url": asset.get("browser_download_url"),
                "path": asset.get("name"),
                "size": asset.get("size"),
            }
            yield Row(0, fields | hashes.read(asset.get("digest")), "assets")
    document.notes += hashes.list_notes()
