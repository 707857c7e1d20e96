"""Two kinds of help for every command: ``--help`` has what most people need, ``--help-all`` everything.

The short help is made from the same parameters as the long one and as the manual (``manual.py``), so that
none of them can drift: a command's own options and the few settings of ``COMMON``, each with the first clause
of its text.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

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
OF_DOWNLOADS = ("download", "get", "sync")  # the verbs for which people know other programs
WIDTH = 80
_EXAMPLES = 2  # of a command's examples, in the short help
_HELP_ALL = "--help-all"


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


class _Helps:
    """What commands and groups share: the option ``--help-all``, and the short help."""

    _all: TyperOption | None = None

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer keeps the class to itself
        """Add ``--help-all`` after ``--help``."""
        if self._all is None:
            self._all = TyperOption(
                param_decls=[_HELP_ALL],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=self._print_all,
                help="Show all options in full and exit.",
            )
        return [*super().get_params(ctx), self._all]  # type: ignore[misc]

    def _print_all(self, ctx: Any, _param: object, is_asked: bool) -> None:  # noqa: ANN401 - see get_params
        if is_asked:
            ctx.meta[_HELP_ALL] = True
            typer.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - see get_params
        """Parse the words; of an option that there is not, say what to write in its place.

        The verbs that download accept flags of other programs that change nothing, and name the own flag for
        the others. Raises UsageError.
        """
        options = [param for param in self.get_params(ctx) if isinstance(param, TyperOption)]
        known = [flag for option in options for flag in (*option.opts, *option.secondary_opts)]
        words = args
        if ctx.info_name in OF_DOWNLOADS and any(
            word.startswith("-") and word.partition("=")[0] not in known for word in args
        ):
            from cfetch.cli.foreign_flags import in_own_words  # most commands have only own flags

            words = in_own_words(args, known, [f for o in options if not o.is_flag for f in o.opts])
        try:
            return super().parse_args(ctx, list(words))  # type: ignore[misc, no-any-return]
        except Exception as error:
            if hasattr(error, "possibilities"):  # of NoSuchOption, whose module is Typer's own
                from cfetch.cli.foreign_flags import suggest

                hint = suggest(getattr(error, "option_name", ""), words, known)
                error.possibilities = []
                error.message += f"; {hint}" if hint else ""  # type: ignore[attr-defined]
            elif "unexpected extra argument" in getattr(error, "message", "") and "--to" in known:
                error.message += "; to say where the files go, write --to DIR"  # type: ignore[attr-defined]
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - see get_params
        """Write the long help if it is asked for, else the short one."""
        if ctx.meta.get(_HELP_ALL):
            join_switches(self.get_params(ctx))
            super().format_help(ctx, formatter)  # type: ignore[misc]
        else:
            # printed, as Typer does: an error shows no other help
            typer.echo("\n".join(short_help(self, ctx)))


class Command(_Helps, TyperCommand):
    """A verb."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Write ``[OPTIONS] MANIFEST`` as manuals do; Typer alone writes ``{MANIFEST}``."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        return ["[OPTIONS]", *(argument.make_metavar(ctx) for argument in arguments)]


class Group(_Helps, TyperGroup):
    """A group of verbs, such as ``cfetch plan``, or all of them."""


def join_switches(params: list[Any]) -> None:
    """Write ``--[no-]color`` in one column, as the names in two columns are too long for a terminal."""
    for param in params:
        if param.secondary_opts:
            name = f"--[no-]{param.opts[0].removeprefix('--')}"
            param.opts, param.secondary_opts = [name, *param.opts[1:]], []


def short_help(command: Any, ctx: Any) -> Iterator[str]:  # noqa: ANN401 - see get_params
    """The lines of ``--help``: usage, purpose, the options that most people need, examples."""
    purpose = " ".join((command.help or "").partition("\n\n")[0].split())
    yield from _wrap(f"Usage: {ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}")
    yield ""
    yield from _wrap(purpose)
    yield ""
    rows = [*_command_rows(command), *_option_rows(command, ctx)]
    wide = max(len(name) for name, _ in rows) if rows else 0
    for name, text in rows:
        first, *more = textwrap.wrap(text, WIDTH - wide - 4) or [""]
        yield f"  {name:<{wide}}  {first}"
        yield from (" " * (wide + 4) + line for line in more)
    examples = examples_of(f"{command.help or ''}\n{command.epilog or ''}")[:_EXAMPLES]
    if examples:
        yield ""
        yield from (f"  {example}" for example in examples)
    shown_options = [p for p in command.get_params(ctx) if isinstance(p, TyperOption) and not p.hidden]
    options = len(shown_options)
    shown = "all commands, exit codes" if isinstance(command, Group) else f"all {options} options"
    yield from ("", *_wrap(f"{ctx.command_path} {_HELP_ALL} shows {shown} and more examples."))


def _command_rows(command: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see get_params
    for name, verb in getattr(command, "commands", {}).items():
        yield name, first_clause((verb.help or "").partition("\n\n")[0].replace("\n", " "), ".;:")


def _option_rows(command: Any, ctx: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see get_params
    for param in command.params:
        if not isinstance(param, TyperOption) or isinstance(command, Group):
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
