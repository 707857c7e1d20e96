"""Two kinds of help for every command: ``--help`` has what most people need, ``--help-all`` everything.

The short help (``short_help.py``) is made from the same parameters as the long one and as the manual
(``manual.py``), so that none of them can drift.
"""

import re
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cfetch.base.errors import UsageError

OF_DOWNLOADS = ("download", "get", "sync")  # the verbs for which people know other programs
_HELP_ALL = "--help-all"


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
            self._add_hint(error, ctx, words, options)
            raise

    def _add_hint(self, error: Any, ctx: Any, words: list[str], options: list[TyperOption]) -> None:  # noqa: ANN401 - Typer keeps the classes to itself
        """Say with an error about the words what to write in their place."""
        known = [flag for option in options for flag in (*option.opts, *option.secondary_opts)]
        name, message = getattr(error, "option_name", ""), getattr(error, "message", "")
        owner = next((option for option in options if name in option.opts), None)
        if hasattr(error, "possibilities"):  # of NoSuchOption, whose module is Typer's own
            from cfetch.cli.foreign_flags import list_owners, suggest

            error.possibilities = []
            place = self._find_place(ctx, name)
            owners = [] if place else list_owners(_make_all_commands(), name)
            hint = f"write the {place} without it" if place else suggest(name, words, known, owners)
            error.message += f"; {hint}" if hint else ""
        elif "requires an argument" in message and owner is not None:
            error.message = f"{name} needs a value: {name} {owner.make_metavar(ctx)}"
        elif "unexpected extra argument" in message and "--to" in known:
            error.message += "; to say where the files go, write --to DIR"

    def _find_place(self, ctx: Any, flag: str) -> str | None:  # noqa: ANN401 - see get_params
        """The argument of this verb that has the name of ``flag``."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        words = {re.sub("[^A-Z]", "", each.make_metavar(ctx)) for each in arguments}
        word = flag.lstrip("-").upper().removesuffix("S")
        return word if word in words else None

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - see get_params
        """Write the long help if it is asked for, else the short one."""
        from cfetch.cli.short_help import join_switches, list_short_help  # only who asks for help needs it

        if ctx.meta.get(_HELP_ALL):
            join_switches(self.get_params(ctx))
            super().format_help(ctx, formatter)  # type: ignore[misc]
        else:
            # printed, as Typer does: an error shows no other help
            typer.echo("\n".join(list_short_help(self, ctx, _HELP_ALL)))


def _make_all_commands() -> Any:  # noqa: ANN401 - Typer keeps the class to itself
    """All verbs, where a run has only its own; half a second, which only a wrong option costs."""
    from cfetch.base.registry import list_installed, load

    every = typer.Typer()
    for name in list_installed("verbs"):
        try:
            verb = load("verbs", name)
        except UsageError:  # of a plug-in that does not load; what runs without it says so
            continue
        if isinstance(verb, typer.Typer):
            every.add_typer(verb, name=name)
        else:
            every.command(name)(verb)
    return typer.main.get_command(every)


class Command(_Helps, TyperCommand):
    """A verb."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Write ``[OPTIONS] MANIFEST`` as manuals do; Typer alone writes ``{MANIFEST}``."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        return ["[OPTIONS]", *(argument.make_metavar(ctx) for argument in arguments)]


class HelpGroup(_Helps, TyperGroup):
    """A group of verbs, such as ``cfetch plan``, or all of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - see get_params
        """Find the verb; of one that there is not, say what was meant, or where the verbs are listed."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            message = getattr(error, "message", "")
            if message.startswith("No such command") and "Did you mean" not in message:
                error.message += f" {ctx.command_path} -h lists the commands."  # type: ignore[attr-defined]
            raise
