"""Ways out in the words of frames: ``--accept-html`` of the command is ``Settings(accept_html=True)`` here.

Errors of files are made by the engine, which knows nothing of frames; a row shows them in its user's words.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cfetch.base.config.settings import KINDS

_FLAG = re.compile(r"(?<![\w/-])--(no-)?([a-z][a-z0-9-]*[a-z0-9])(?: ([A-Z][A-Z%|]*|[a-z-]+)\b)?")
_REFUSED = (  # texts with flags that no frame takes
    (", and --bad-rows skip leaves such rows out", ""),
    ("--bearer-env, --header and --cookies", "--bearer-env and --header"),
    ("--cookies or --bearer-env", "--header or --bearer-env"),
)
_OF_MANIFESTS = ((", or by cfetch get --sha256", ""), *_REFUSED)
_OF_ROWS = (
    ("in the manifest, or by cfetch get --sha256", "in a column ({size}, {sha256})"),
    ("in the manifest", "in a column ({size}, {sha256})"),
    ("where the manifest says", "where the row says"),
    ("--size-column none leaves all sizes out", "a null is no size, and without {size} none counts"),
    ("--name-by row or hash", "--name-by hash"),
    ("base_url (or --base-url)", "--base-url"),
    *_REFUSED,
)


class FrameWords(NamedTuple):
    """``names``: what stands for flags that are no settings here; ``setting``: for others, with a value.

    ``phrases``: texts that name more than a flag, and what stands for them, with ``names``.
    """

    names: Mapping[str, str]
    setting: str
    show: Callable[[object], str]
    phrases: tuple[tuple[str, str], ...] = _OF_ROWS


CALL_WORDS = FrameWords(
    {
        "size": "size=…",
        "sha256": "sha256=…",
        "header": "headers=…",
        "refresh_command": "renew=…",
        "to": "to=…",
    },
    "Settings({}={})",
    repr,
)
"""Of ``cfetch.spark.download``."""

_SECRET = {name: f"option {name}_url" for name, kind in KINDS.items() if kind.secret}
_SETTING = "option {}={}"


def _show_option(value: object) -> str:
    return str(value).lower()


OPTION_WORDS = FrameWords(
    _SECRET
    | {"size": "option size_column", "sha256": "option hash_column", "header": "option headers_column"}
    | {"to": "the path of save"},
    _SETTING,
    _show_option,
)
"""Of the formats for shards."""

MANIFEST_WORDS = FrameWords(_SECRET, _SETTING, _show_option, _OF_MANIFESTS)
"""Of the format ``cfetch``, which has a manifest."""


def put_into_frame_words(text: str, words: FrameWords) -> str:
    """The text with what a user of frames can give in place of flags and of a manifest."""

    def name_way(match: re.Match[str]) -> str:
        no, flag, value = match.groups()
        name = flag.replace("-", "_")
        kind = KINDS.get(name)
        shown, rest = "…", f" {value}" if value and not value.isupper() else ""
        if kind is not None and kind.is_flag:
            shown = words.show(not no)
        elif kind is not None and value in kind.choices:
            shown, rest = words.show(value), ""
        if name in words.names:
            return words.names[name] + rest
        return match.group() if kind is None else words.setting.format(name, shown) + rest

    for phrase, ours in words.phrases:
        text = text.replace(phrase, ours.format(**words.names))
    return _FLAG.sub(name_way, text)
