"""The hashes that a manifest may state: their names, their lengths, and their order of trust.

SHA-2, SHA-3, BLAKE2b, sha1, md5 and crc32 come with Python. crc32c (used by object stores) and blake3 need a
library each, and only for a manifest that states them: ``pip install 'cfetch[hashes]'``. A manifest cannot
state crc64nvme; a store may state it for its object in a reply. ``hashing.py`` computes them.
"""

import functools
import re
from importlib.util import find_spec

from cfetch.manifest.entry import Digest

HEX_DIGITS = {
    "sha512": 128, "sha3_512": 128, "blake2b": 128, "sha384": 96, "sha3_384": 96, "sha256": 64,
    "sha3_256": 64, "blake3": 64, "sha224": 56, "sha3_224": 56, "sha1": 40, "git_sha1": 40, "md5": 32,
    "crc32c": 8, "crc32": 8,
}  # fmt: skip
"""Algorithm -> hexadecimal digits, the most trusted first.

Hashes that Python itself computes come before blake3, so that its library is needed only if no other strong
hash is stated. sha1 and md5 can be forged, and the CRCs detect only accidents. git_sha1 is the name that git
gives to a file's content: the SHA-1 of ``blob SIZE``, a zero byte and the bytes.
"""

ARIA2_NAMES = {
    "md5": "md5", "sha-1": "sha1", "sha-224": "sha224", "sha-256": "sha256", "sha-384": "sha384",
    "sha-512": "sha512",
}  # fmt: skip
"""aria2's name of a hash -> cfetch's name."""

_FOLDED = {name.replace("_", ""): name for name in HEX_DIGITS if name != "git_sha1"} | {
    "git_sha1": "git_sha1",
    "b2": "blake2b", "blake2": "blake2b", "blake2b512": "blake2b", "b3": "blake3", "blake3256": "blake3",
    "sha2224": "sha224", "sha2256": "sha256", "sha2384": "sha384", "sha2512": "sha512",
}  # fmt: skip
_STATED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{1,11})[:=-]([0-9A-Fa-f]{8,128})\Z")

_RANK = {algorithm: rank for rank, algorithm in enumerate(HEX_DIGITS)}
_LIBRARIES = {
    "blake3": ("blake3", "blake3", "hashes"),
    "crc32c": ("google_crc32c", "google-crc32c", "hashes"),
    "crc64nvme": ("awscrt", "awscrt", "cloud"),
}


Bytes = bytes | memoryview


def find_algorithm(name: str) -> str | None:
    """The hash that other programs call so; None: cfetch does not know it.

    >>> find_algorithm("SHA2-256"), find_algorithm("sha3-512"), find_algorithm("BLAKE2b512")
    ('sha256', 'sha3_512', 'blake2b')
    """
    folded = name.lower()
    return _FOLDED.get(folded) or _FOLDED.get(folded.replace("-", "").replace("_", ""))


def find_stated(text: str) -> tuple[str, str] | None:
    """The hash and its digits in ``sha256:…``, ``sha256=…`` or ``sha256-…``; None: it is no such text."""
    match = _STATED.match(text)
    algorithm = find_algorithm(match[1]) if match else None
    if match is None or algorithm is None or len(match[2]) != HEX_DIGITS[algorithm]:
        return None
    return algorithm, match[2]


@functools.cache  # it is called for every entry, and looks at the disk
def needs_library(algorithm: str) -> str | None:
    """A message about the library that ``algorithm`` still needs; None if it can be computed."""
    module, package, extra = _LIBRARIES.get(algorithm, ("", "", ""))
    if not module or find_spec(module) is not None:
        return None
    return missing_library(algorithm, package, extra)


def missing_library(what: str, package: str, extra: str) -> str:
    """The message about a library that is not installed."""
    return f"{what} needs the library {package}, which is not installed: pip install 'cfetch[{extra}]'"


def choose_stronger(digest: Digest | None, other: Digest) -> Digest:
    """Choose the hash to verify, if a file has several; of one sort, the ``other``."""
    if digest is None or _RANK[digest.algorithm] >= _RANK[other.algorithm]:
        return other
    return digest
