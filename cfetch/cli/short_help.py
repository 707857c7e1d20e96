"""The short help: a command's own options and the settings of ``COMMON``, each with its first clause."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup, TyperOption

COMMON = (
    "to",
    "concurrency",
    "limit_rate",
    "existing",
    "include",
    "exclude",
    "header",
    "max_failures",
    "failures",
    "failed_from",
    "dry_run",
    "verbose",
    "quiet",
    "json",
    "pairs",
)
"""The settings of the short help."""
WIDTH = 80
_EXAMPLES = 2  # of a command's examples, in the short help


def first_clause(text: str, ends: str = ".;") -> str:
    """The beginning of a help text, which says what the option is; the rest is for the long help.

    >>> first_clause("Where the files go; repeat it to share them out. Also s3://bucket/prefix.")
    'Where the files go.'
    """
    clause = re.split(rf"(?<=[\w)`])(?:[{ends}](?=\s|$)| \()", text, maxsplit=1)[0]
    return f"{clause.rstrip('.')}."


def examples_of(text: str) -> list[str]:
    """The commands below the word Examples of a docstring."""
    return re.findall(r"^ +((?:cfetch|curl) .*)$", text.partition("Examples:")[2], re.MULTILINE)


def join_switches(params: list[Any]) -> None:
    """Write ``--[no-]color`` in one column, as the names in two columns are too long for a terminal."""
    for param in params:
        if param.secondary_opts:
            name = f"--[no-]{param.opts[0].removeprefix('--')}"
            param.opts, param.secondary_opts = [name, *param.opts[1:]], []


def list_short_help(command: Any, ctx: Any, help_all: str) -> Iterator[str]:  # noqa: ANN401 - see get_params
    """The lines of ``--help``: usage, purpose, the options that most people need, examples."""
    purpose = " ".join((command.help or "").partition("\n\n")[0].split())
    yield from _wrap(f"Usage: {ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}")
    yield from _wrap(purpose)
    yield ""
    rows = [*_command_rows(command), *_option_rows(command, ctx)]
    wide = max(len(name) for name, _ in rows) if rows else 0
    for name, text in rows:
        first, *more = textwrap.wrap(text, WIDTH - wide - 4) or [""]
        yield f"  {name:<{wide}}  {first}"
        yield from (" " * (wide + 4) + line for line in more)
    most = _EXAMPLES if ctx.parent else 1  # the list of all verbs fits a screen of 24 lines
    examples = examples_of(f"{command.help or ''}\n{command.epilog or ''}")[:most]
    if examples:
        yield ""
        yield from (f"  {example}" for example in examples)
    options = [p for p in command.get_params(ctx) if isinstance(p, TyperOption)]
    listed = sum(not option.hidden for option in options)
    share = f"all {listed}" if listed == len(options) else f"{listed}"
    shown = "all commands, exit codes" if isinstance(command, TyperGroup) else f"{share} options"
    yield from ("", *_wrap(f"{ctx.command_path} {help_all} shows {shown} and more examples."))


def _command_rows(command: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see get_params
    for name, verb in getattr(command, "commands", {}).items():
        yield name, first_clause((verb.help or "").partition("\n\n")[0].replace("\n", " "), ".;:")


def _option_rows(command: Any, ctx: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see get_params
    for param in command.params:
        if not isinstance(param, TyperOption) or isinstance(command, TyperGroup):
            continue
        if param.hidden:
            continue
        is_own = param.rich_help_panel is None and not param.is_eager
        if is_own or param.name in COMMON:
            yield option_name(param, ctx), first_clause(param.help or "")


def option_name(param: Any, ctx: Any) -> str:  # noqa: ANN401 - see get_params
    """An option as a manual names it: ``-o, --to DIR``."""
    names = sorted(param.opts, key=len)
    if param.secondary_opts:
        names[-1] = f"--[no-]{names[-1].removeprefix('--')}"
    metavar = "" if param.is_flag else f" {param.make_metavar(ctx)}"
    return f"{', '.join(names)}{metavar}"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH) or [""]
