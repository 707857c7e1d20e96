"""YAML and TOML as JSON, for ``--query`` and for refusals that name its expressions.

Lock files, recipes, catalogues and configurations hold lists of files in the shapes that JSON has too.
"""

import io
import json
import re
import tomllib
from dataclasses import replace
from pathlib import PurePosixPath

from cfetch.manifest.source import MAX_DOCUMENT_BYTES, Source

_YAML = re.compile(r"(?:#[^\n]*\n|\s)*+(?:---\s|[\w.\"'-]{1,100}:(?:\s|\Z)|- \S)")
_TOML = re.compile(r"(?:#[^\n]*\n|\s)*+(?:\[\[?[\w.\"'-]+\]\]?[ \t]*\r?\n|[\w.\"'-]{1,100} *= *\S)")
_YAML_ENDINGS = (".yaml", ".yml")


def convert_to_json(source: Source) -> Source | None:
    """The same document in JSON; None: it is neither YAML nor TOML with keys or items, or too long."""
    head = source.head()
    ending = PurePosixPath(source.name.lower()).suffix
    may_be_yaml = ending in _YAML_ENDINGS or _YAML.match(head) is not None
    may_be_toml = _TOML.match(head) is not None
    if head[:1] in "{<" or not (may_be_yaml or may_be_toml):
        return None
    data = source.read(source.begin, MAX_DOCUMENT_BYTES + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if len(data) > MAX_DOCUMENT_BYTES:
        return None
    value = _load_toml(text) if may_be_toml else None
    if value is None and may_be_yaml:
        from cfetch.base.config.document import read_foreign  # few lists are YAML

        value = read_foreign(text)
    if not isinstance(value, dict | list):
        return None
    written = json.dumps(value, default=str).encode()
    return replace(source, file=io.BytesIO(written), begin=0, end=None, line=1)


def _load_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
