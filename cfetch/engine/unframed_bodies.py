"""Bodies without a length, which only the end of the connection ends. Imported when the first one comes."""

from typing import TYPE_CHECKING

from cfetch.base.errors import Refused, Transient
from cfetch.wire.transport import Response

if TYPE_CHECKING:
    from cfetch.storage.volume import Sink

NO_END = (
    "the server states no length and ends the body with the connection, so a cut body looks whole; "
    "state the size or a hash in the manifest, or by cfetch get --sha256, or take it with --accept-unframed"
)
CUT_IN_TLS = (
    "the server states no length, and the connection ended without TLS's own end: the body may be cut; "
    "--accept-unframed takes it"
)
UNFRAMED_NOTE = "came without a length, and is taken (--accept-unframed): if it was cut, nobody can see it"


def take_unframed(response: Response, *, is_accepted: bool) -> bool:
    """Whether such a body is taken on request, which is worth a note. Raises Refused: it is not taken."""
    if not is_accepted and response.tls_end is None:
        raise Refused(NO_END)
    return is_accepted


def check_tls_end(response: Response, part: "Sink") -> None:
    """Raise Transient if a body that the connection's end ends may have been cut."""
    if not response.tls_end:
        part.restart()
        raise Transient(CUT_IN_TLS)
