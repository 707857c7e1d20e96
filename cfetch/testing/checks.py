"""What the suites share: errors that have to come, and entries of a manifest."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Digest, Entry
from cfetch.manifest.fields import check_path


class Expected:
    """``value`` is the error that came."""

    value: BaseException | None = None


@contextmanager
def expect_error(kind: type[BaseException], pattern: str = "") -> Iterator[Expected]:
    """Fail unless the block raises an error of this kind, whose text has the pattern."""
    expected = Expected()
    try:
        yield expected
    except kind as error:
        expected.value = error
        if re.search(pattern, str(error)) is None:
            raise AssertionError(f"{pattern!r} is not in {str(error)!r}") from error
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


def make_entry(number: int, path: str, body: bytes, *, has_hash: bool = False) -> Entry:
    """An entry whose manifest states the size of ``body``, and its hash if asked."""
    known: dict[str, Any] = {"digest": Digest("sha256", hashlib.sha256(body).hexdigest())} if has_hash else {}
    url = SecretUrl(f"https://origin.test/{path}")
    return Entry(id=number, path=check_path(path), url=url, size_bytes=len(body), **known)
