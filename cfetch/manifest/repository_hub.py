"""The address of the Hugging Face hub: the variable ``HF_ENDPOINT``, as for Hugging Face's own tools."""

import os
import re

from cfetch.base.errors import UsageError
from cfetch.base.schemes import HUGGING_FACE, WEB_PATTERN

_ADDRESS = re.compile(rf"{WEB_PATTERN}://[A-Za-z0-9._-]+(?::\d{{1,5}})?(?:/[!-.0-~]+)*\Z", re.ASCII)


def find_endpoint() -> str:
    """The hub's address, without a slash at its end. Raises UsageError."""
    endpoint = (os.environ.get("HF_ENDPOINT") or HUGGING_FACE).rstrip("/")
    if not _ADDRESS.match(endpoint):
        raise UsageError(f"HF_ENDPOINT is no address like {HUGGING_FACE}")  # it may hold a password
    return endpoint
