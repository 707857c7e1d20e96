"""Which link a published file came from, written on the file itself.

A file without a stated hash has only its size to prove itself, and another link may lead to another file
of that size. So before such a file gets its name, the extended attribute ``user.cfetch.source`` is set on it.
An attribute travels with the file through renames and moves on its file system; no list of ours can disagree
with what is there. It is lost when another tool replaces the file or copies it, and then nothing is known
about the file, which is the truth. A tool that writes into the file keeps it: it says where the file came
from, not what it holds.
"""

import os
from contextlib import suppress

import msgspec

__all__ = ["Source", "set_source", "source_of"]

ATTRIBUTE = "user.cfetch.source"


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``identity`` names the link and holds nothing of it; ``validator`` is the strong ETag, if any."""

    identity: str
    validator: str | None


def set_source(descriptor: int, source: Source) -> None:
    """Write it on an open file, if the file system has extended attributes and room for this one."""
    with suppress(OSError, AttributeError, UnicodeEncodeError):  # some systems have no such call
        os.setxattr(descriptor, ATTRIBUTE, msgspec.json.encode(source))


def source_of(descriptor: int) -> Source | None:
    """What stands on an open file; None for nothing, or anything that is not ours."""
    with suppress(OSError, AttributeError, msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(os.getxattr(descriptor, ATTRIBUTE), type=Source)
    return None
