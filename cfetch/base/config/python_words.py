"""Words of the command line as Python has them: ``--max-failures`` is ``max_failures``. Pure."""

import re
from collections.abc import Mapping

from cfetch.base.config.kinds import OptionKind

_FLAG = re.compile(r"(?<![\w/-])--(no-)?([a-z][a-z0-9-]*[a-z0-9])(?: ([A-Z][A-Z%|]*)\b)?")
_OF_GET = ("output", "sha256")
_COMMANDS = (
    (re.compile(r"`?cfetch get(?: --?[a-z0-9-]+)? ?(?:URL|FILE)?`?"), "cfetch.get(URL)"),
    (re.compile(r"`cfetch download ([^`]*)`"), r'cfetch.download("\1")'),
    (re.compile(r"(?<=name it with )-o FILE"), "output=…"),
)


def put_into_python(text: str, kinds: Mapping[str, OptionKind]) -> str:
    """The text with keywords in place of flags, and calls in place of commands."""

    def name_keyword(match: re.Match[str]) -> str:
        no, flag, value = match.groups()
        name = flag.replace("-", "_")
        if name not in kinds and name not in _OF_GET:
            return match.group()
        if no or (name in kinds and kinds[name].is_flag):
            return f"{name}={not no}"
        return f"{name}={value}" if value else name

    for pattern, words in _COMMANDS:
        text = pattern.sub(words, text)
    return _FLAG.sub(name_keyword, text)
