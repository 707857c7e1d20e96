"""The command line: one file per verb, each options -> call -> render. Exit codes are decided here, once.

0 all entries done; 1 some failed; 2 usage, configuration or manifest; 3 local fault; 4 another live run holds
the plan; 130 and 143 signals; 141 the reader of stdout has gone; 70 a bug in cfetch. Errors are one message
on stderr, never a traceback.
"""

import atexit
import os
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperArgument, TyperCommand

from cfetch import __version__
from cfetch.cli.streams import ReaderGone, guard, settle
from cfetch.errors import CfetchError, Interrupted, LocalFault, UsageError
from cfetch.run.collector import collect_seldom

_EPILOG = """\
Examples:

  cfetch download manifest.json --to data/

  cfetch bench --simulate-stragglers --quick

More of them: cfetch COMMAND --help

Exit codes:
    0  all files are in place
    1  some failed; stderr and the metrics name them
    2  usage, configuration or manifest is wrong; nothing was downloaded
    3  this machine: disk full, no permission, nowhere to write the result
    4  another live run has this plan; stderr names it
  130  interrupted (143: terminated); run it again to continue
   70  a bug in cfetch"""

app = typer.Typer(
    name="cfetch",
    help="Download a very large set of files whole, verified and without stragglers.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cfetch {__version__} (Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Download a very large set of files whole, verified and without stragglers."""


class _Command(TyperCommand):
    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Write ``[OPTIONS] MANIFEST`` as manuals do; Typer alone writes ``{MANIFEST}``."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        return ["[OPTIONS]", *(argument.make_metavar(ctx) for argument in arguments)]

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # noqa: ANN401 - Typer keeps the class to itself
        """Write ``--[no-]color`` in one column, as the names in two columns are too long for a terminal."""
        for param in self.get_params(ctx):
            if param.secondary_opts:
                param.opts, param.secondary_opts = [f"--[no-]{param.opts[0].removeprefix('--')}"], []
        super().format_help(ctx, formatter)


_OF_UNIX = ("fcntl", "resource", "termios")
_VERBS = ("download", "get", "sync", "follow", "bench", "report", "tune", "verify")
_GROUPS = ("manifest", "plan", "feed", "metrics")


def _verbs(word: str | None = None) -> None:
    """Add only the verb ``word``; all verbs if ``word`` is no verb.

    Typer inspects every parameter of every verb that it has; that takes longer than running one verb.
    """
    known = word in _VERBS or word in _GROUPS
    for name in _GROUPS:
        if name == word or not known:
            group = import_module(f"cfetch.cli.{name}").app
            app.add_typer(group, name=name)
            for command in group.registered_commands:
                command.cls = _Command
    for name in _VERBS:
        if name == word or not known:
            verb = getattr(import_module(f"cfetch.cli.{name}"), name)
            app.command(cls=_Command, rich_help_panel=None, no_args_is_help=name != "bench")(verb)


def refuse_platform(name: str) -> str | None:
    """Why cfetch does not run on the platform of this ``os.name``; None where it does."""
    if name == "posix":
        return None
    return "it runs on Linux and macOS, and not on Windows itself; install it in WSL (wsl --install)"


def main() -> None:
    """Run the command line and leave with its exit code."""
    if (refusal := refuse_platform(os.name)) is not None:
        print(f"cfetch: {refusal}", file=sys.stderr)
        sys.exit(UsageError.exit_code)
    guard()
    word = next(iter(sys.argv[1:]), None)
    if word is not None and "://" in word:  # it may hold a secret, and an unknown command is quoted
        print("cfetch: a URL is no command; to download it, say `cfetch get URL`", file=sys.stderr)
        sys.exit(UsageError.exit_code)
    _verbs(word)
    try:
        with collect_seldom():  # imports alone would make Python collect garbage a hundred times
            code = _run_verb()
    except KeyboardInterrupt:  # it came while the last lines were written
        code = 128 + signal.SIGINT
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on Python would answer with a traceback
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process; skip the interpreter's own shutdown if that could change the exit code.

    A thread of obstore wakes the event loop, and then takes the GIL once more. Before Python 3.14, a thread
    that asks for the GIL during shutdown is ended, and then Rust aborts the process.
    """
    if "obstore" not in sys.modules:
        sys.exit(code)
    with suppress(LocalFault, ReaderGone):
        settle()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # functions that other programs have registered, such as a tracer
    os._exit(code)


def _run_verb() -> int:
    try:
        try:
            app()
        except SystemExit as end:
            settle()
            return end.code if isinstance(end.code, int) else 0
    except CfetchError as error:
        print(f"cfetch: {error}", file=sys.stderr)
        return 128 + error.signal_number if isinstance(error, Interrupted) else error.exit_code
    except ReaderGone:
        return 128 + signal.SIGPIPE
    except Exception as bug:  # noqa: BLE001 - the last line of defence; its text may hold a secret, so only places are shown
        _print_places(bug)
    return CfetchError.exit_code


def _print_places(bug: BaseException) -> None:
    if isinstance(bug, BaseExceptionGroup):
        for inner in bug.exceptions:
            _print_places(inner)
        return
    if isinstance(bug, ModuleNotFoundError) and bug.name in _OF_UNIX:
        print(
            f"cfetch: this platform lacks Python's module {bug.name}; run it on Linux or macOS",
            file=sys.stderr,
        )
        return
    print(f"cfetch: a bug in cfetch, {type(bug).__name__}, at:", file=sys.stderr)
    for frame in traceback.extract_tb(bug.__traceback__):
        print(f"  {frame.filename}:{frame.lineno} in {frame.name}", file=sys.stderr)
