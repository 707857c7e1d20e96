"""Reads one YAML file as mappings, lists and strings. No types are guessed: ``NO`` and ``010`` stay text.

Configuration and bench scenarios are YAML; a manifest is only where ``--query`` reads it.
"""

from collections.abc import Hashable
from pathlib import Path

import yaml

from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable

MAX_DOCUMENT_BYTES = 1 << 20  # a configuration is written by hand; a larger file is a mistake


class _StrictLoader(yaml.BaseLoader):
    """Reads only strings; refuses duplicate keys, and aliases, which let a few bytes expand without limit."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs lack it
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: Path) -> dict[str, object]:
    """The document's top-level mapping; every scalar is a ``str``, an empty document an empty mapping.

    Raises:
        ConfigError: the file is unreadable, too large, not YAML, or not a mapping with text keys.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_DOCUMENT_BYTES} bytes; is it really a configuration?")
    try:
        document = yaml.load(raw.decode(), _StrictLoader)  # noqa: S506 - a BaseLoader builds only str, list and dict
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigError(f"{path}:{line}: {printable(error.problem or 'not YAML')}") from None
    except (yaml.YAMLError, RecursionError):
        raise ConfigError(f"{path} is not YAML that cfetch can read") from None
    if document is None or document == "":
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ConfigError(f"{path} must hold `key: value` lines")
    return document


def read_foreign(text: str) -> object:
    """The value of a YAML document of another program, or a list of several; each scalar is text or None.

    None if it is not YAML, or has aliases, which let a few bytes expand without limit.
    """
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml is not in every build
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            return None
        values = list(yaml.load_all(text, loader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    values = [_undo_null(value) for value in values]
    return values[0] if len(values) == 1 else values


def _undo_null(value: object) -> object:
    if isinstance(value, dict):
        return {key: _undo_null(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_undo_null(inner) for inner in value]
    return None if value in ("", "~", "null") else value


def quote(text: str) -> str:
    """Write ``text`` as a scalar on one line that ``load`` reads back."""
    style = None if text.isprintable() else '"'
    dumped = yaml.dump(
        text, Dumper=yaml.SafeDumper, default_style=style, width=float("inf"), allow_unicode=True
    )
    return dumped.removesuffix("...\n").rstrip("\n")
