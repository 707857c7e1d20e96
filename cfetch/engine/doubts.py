"""Doubts about files whose size and hash nobody states: errors that a server sends as 200 (``--doubtful``).

Only facts at hand are used: a page where the name has another ending (``wire/judge.py`` refuses it), what
``error_bodies.py`` recognises, one page among the other files of a host, and text at the start of a file
whose ending is that of a binary format.
"""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from cfetch.engine.attempt import Assignment
from cfetch.engine.error_bodies import MOST_BYTES, OddDocument, find_document, may_be_document
from cfetch.manifest.digests import Bytes
from cfetch.wire.headers import read_media_type
from cfetch.wire.judge import PAGE_REFUSED, is_page_name
from cfetch.wire.transport import Response
from cfetch.wire.verdict import Verdict, refuse

MAX_HOSTS = 4096
LEAST_OTHERS = 3  # files of a host that are no pages, for each page: fewer may be what the list means
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_STARTS: dict[str, tuple[bytes, ...]] = {  # first bytes of formats whose files never begin with text
    **dict.fromkeys("zip jar whl docx xlsx pptx odt ods epub apk npz".split(), _ZIP),  # noqa: SIM905
    **dict.fromkeys(("gz", "tgz"), (b"\x1f\x8b",)),
    **dict.fromkeys(("bz2", "tbz2"), (b"BZh",)),
    **dict.fromkeys(("xz", "txz"), (b"\xfd7zXZ\x00",)),
    **dict.fromkeys(("zst", "zstd"), (b"\x28\xb5\x2f\xfd",)),
    "7z": (b"7z\xbc\xaf\x27\x1c",),
    "rar": (b"Rar!\x1a\x07",),
    "parquet": (b"PAR1", b"PARE"),
    **dict.fromkeys(("arrow", "feather"), (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")),
    "avro": (b"Obj\x01",),
    "orc": (b"ORC",),
    **dict.fromkeys(("h5", "hdf5", "nc4"), (b"\x89HDF\r\n\x1a\n",)),
    "nc": (b"\x89HDF\r\n\x1a\n", b"CDF"),
    "npy": (b"\x93NUMPY",),
    "png": (b"\x89PNG\r\n\x1a\n",),
    **dict.fromkeys(("jpg", "jpeg"), (b"\xff\xd8\xff",)),
    "gif": (b"GIF8",),
    **dict.fromkeys(("tif", "tiff"), (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")),
    "pdf": (b"%PDF",),
    **dict.fromkeys(("sqlite", "sqlite3"), (b"SQLite format 3\x00",)),
}
SAID = "is no {ending}, but text: an error that was sent as the file?"


def _find_doubt(path: str, start: bytes) -> str | None:
    """Why a file that begins with text may be something else than its name says; None: nothing says so."""
    ending = path.rpartition(".")[2].lower()
    starts = _STARTS.get(ending)
    if starts is None or not start or start.startswith(starts):
        return None
    return SAID.format(ending=ending)


async def read_start(start: Bytes, read: Callable[[], Awaitable[Bytes]]) -> Bytes:
    """Read on until a small document is whole, or there is more than any has; of other text nothing more."""
    while len(start) < MOST_BYTES and may_be_document(bytes(start)):
        data = bytes(start)  # first: the next read uses the memory again
        more = await read()
        start = data + bytes(more)
        if not more:
            break
    return start


class Doubts:
    """Judges pages and texts. ``others``: by host, how many files that nothing proves are no pages.

    ``fails``: doubtful files are refused, and not noted.
    """

    def __init__(self, note: Callable[[str, str], None], others: Mapping[str, int], *, fails: bool) -> None:
        self._note = note
        self._others = others
        self._fails = fails
        self._pages: dict[str, list[str]] = {}

    def judge(
        self, assignment: Assignment, response: Response, data: Bytes, *, is_page: bool, is_text: bool
    ) -> Verdict | None:
        """Note a file that may be an error; None, or the verdict that refuses it."""
        host, path, start = assignment.host, assignment.entry.path, bytes(data[:MOST_BYTES])
        media_type = read_media_type(response.headers)
        document = find_document(path, media_type, start) if is_text and not is_page else None
        if document is not None and document.is_page:
            if assignment.refuses_pages:
                return refuse(PAGE_REFUSED.format(f"as {media_type}" if media_type else "without a type"))
            is_page, document = True, None
        if is_page and len(self._pages) < MAX_HOSTS:
            self._pages.setdefault(host, []).append(path)
        if document is not None:
            return self._judge_document(path, response, start, document)
        doubt = _find_doubt(path, start) if is_text else None
        if doubt is None:
            return None
        if self._fails:
            return refuse(f"the file {doubt} --doubtful accept takes it")
        self._note(path, f"{doubt} --doubtful fail refuses such files")
        return None

    def _judge_document(
        self, path: str, response: Response, start: bytes, document: OddDocument
    ) -> Verdict | None:
        """Refuse a document in the place of a file; note it where the name may be anything's."""
        from cfetch.wire.reasons import explain_by  # only such documents need it

        is_noted = is_page_name(path, bare=not self._fails)
        said = f"is {document.name}" if is_noted else f"the server sends {document.name} in its place"
        verdict = refuse(f"{said}, with status {response.status}")
        if document.is_error:
            verdict = explain_by(start, verdict, response)
        text = verdict.reason + document.way
        if is_noted:
            self._note(path, f"{text}; --doubtful fail refuses such files")
            return None
        return msgspec.structs.replace(
            verdict, reason=f"{text}; if it is meant, state its size or hash, or give --doubtful accept"
        )

    def report(self) -> None:
        """Note the pages of hosts whose other files are none."""
        if self._fails:
            return
        for host, paths in self._pages.items():
            others = self._others.get(host, 0)
            if others < LEAST_OTHERS * len(paths):
                continue
            for path in paths:
                self._note(
                    path,
                    f"is a web page, and {others} other files of {host} are none: an error that was sent as "
                    "the file? --doubtful fail refuses such files",
                )
        self._pages.clear()
