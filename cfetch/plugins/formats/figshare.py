"""An article of figshare, ``/v2/articles/ID``, or its list of files, ``/v2/articles/ID/files``."""

import re
from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

PAGE = 10  # files in one answer, unless page_size asks for more
_PAGE_SIZE = re.compile(r"[?&](?:page_size|limit)=([0-9]{1,9})(?:[&#]|\Z)")


def read_figshare(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and ``md5``. A link to another site has no size."""
    article = load_json(source, "the article")
    files = list(list_objects(article, None if isinstance(article, list) else "files"))
    if any("url_public_api" in file for file in files):
        raise BrokenDocumentError(
            0, "it is a list of articles; give one of them: https://api.figshare.com/v2/articles/ID"
        )
    asked = _PAGE_SIZE.search(source.own_url or "")
    if len(files) == (int(asked[1]) if asked else PAGE):
        document.note_partial(
            f"it has {len(files)} files, as many as one answer holds: it may go on; ask for "
            "…/files?page_size=1000"
        )
    for file in files:
        is_link = file.get("is_link_only") is True
        yield Row(
            0,
            {
                "url": file.get("download_url"),
                "path": file.get("name"),
                "size": None if is_link else file.get("size"),
                "md5": None if is_link else file.get("computed_md5") or file.get("supplied_md5") or None,
            },
            "files",
        )
