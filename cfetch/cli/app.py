"""Adds the verbs, runs one of them, and decides the exit code. No other module does that.

``EXIT_CODES`` lists the codes. If the reader of stdout has gone, the code is 141, without a message. An error
is one message on stderr, never a traceback.
"""

import atexit
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from cfetch.base.errors import CfetchError, Interrupted, LocalFault, UsageError, describe_bug
from cfetch.base.registry import SHIPPED, find, list_installed, load
from cfetch.base.version import __version__
from cfetch.cli.help import Command, HelpGroup
from cfetch.cli.streams import ReaderGone, guard, settle
from cfetch.run.collector import collect_seldom

_EXAMPLES = """\
Examples:

  cfetch download manifest.json --to data/

  cfetch bench --simulate-stragglers --quick

More of them: cfetch COMMAND --help-all
"""
EXIT_CODES = """\
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
    cls=HelpGroup,
    help="Download a very large set of files whole, verified and without stragglers.",
    epilog=f"{_EXAMPLES}\n{EXIT_CODES}",
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
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Download a very large set of files whole, verified and without stragglers."""


_COMPLETION = frozenset({"--install-completion", "--show-completion"})
_OF_UNIX = ("fcntl", "resource", "termios")


def add_verbs(word: str | None = None) -> None:
    """Add only the verb ``word``; without a word all verbs. If it is no verb, all are added without options.

    None of them can run then, and a list shows only what they are for. Typer inspects every parameter of
    every verb that it has; that takes longer than running one verb.
    """
    if word is not None and (word in SHIPPED["verbs"] or find("verbs", word) is not None):
        _add_verb(word, load("verbs", word))
        return
    verbs: dict[str, Any] = {}
    for name in list_installed("verbs"):
        try:
            verbs[name] = load("verbs", name)
        except UsageError as error:  # one that does not load hides no other
            print(f"cfetch: {error}", file=sys.stderr)
    for name in sorted(verbs, key=lambda name: isinstance(verbs[name], typer.Typer)):  # groups come last
        _add_verb(name, verbs[name] if word is None else _strip_options(verbs[name]))


def _add_verb(name: str, verb: Any) -> None:  # noqa: ANN401 - a function, or a group of them
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name, cls=HelpGroup)
        for command in verb.registered_commands:
            command.cls = Command
    else:
        no_arguments_is_help = name not in ("bench", "doctor")
        app.command(name, cls=Command, rich_help_panel=None, no_args_is_help=no_arguments_is_help)(verb)


def _strip_options(verb: Any) -> Callable[[], None]:  # noqa: ANN401 - as above
    """What a list of verbs shows of this one."""

    def refuse() -> None:
        raise AssertionError("a word that is no verb ran one")

    refuse.__doc__ = verb.info.help if isinstance(verb, typer.Typer) else verb.__doc__
    return refuse


def refuse_platform(name: str) -> str | None:
    """Why cfetch does not run on the platform of this ``os.name``; None where it does."""
    if name == "posix":
        return None
    return "it runs on Linux and macOS, and not on Windows itself; install it in WSL (wsl --install)"


def _refuse_loop() -> str | None:
    """Why the command does not run here, if an event loop is running; None if there is none.

    The command handles signals, the streams and the end of its process; in a notebook they are the kernel's.
    """
    if "asyncio" not in sys.modules:  # to import it takes longer than many a command
        return None
    import asyncio

    if asyncio._get_running_loop() is None:
        return None
    return (
        "an event loop is running here, as in a notebook; write `!cfetch …` there to have a process of its "
        "own, or call `cfetch.download(…)` in Python"
    )


def main() -> None:
    """Run the command line and leave with its exit code."""
    if (refusal := refuse_platform(os.name) or _refuse_loop()) is not None:
        print(f"cfetch: {refusal}", file=sys.stderr)
        sys.exit(UsageError.exit_code)
    guard()
    for name in ("COLUMNS", "LINES"):  # 0: the size is not known; rich would print a page without a character
        if not os.environ.get(name, "1").strip("0"):
            del os.environ[name]
    # else numpy would reserve 40 MiB of addresses for each core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.unraisablehook = _tell_unraisable
    word = _find_verb(sys.argv[1:], os.environ)
    if word is not None and ("://" in word or "@" in word):  # a secret, maybe; unknown commands are quoted
        print(
            "cfetch: a command has to come before the URL; to download it, run `cfetch get URL`",
            file=sys.stderr,
        )
        sys.exit(UsageError.exit_code)
    try:
        add_verbs(word or "")
        with collect_seldom():  # imports alone would make Python collect garbage a hundred times
            code = _run_verb(_load_completion() if _COMPLETION & {*sys.argv[1:]} else app)
    except UsageError as error:  # of the verb's plug-in, which does not load
        print(f"cfetch: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:  # it came during the imports of the verb, or while the last lines were written
        code = 128 + signal.SIGINT
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on Python would answer with a traceback
    _leave(code)


def _load_completion() -> Callable[[], None]:
    from cfetch.cli.completion import install  # once for each user, if ever

    return lambda: install(app)


def _tell_unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """End the process at a Ctrl-C that came inside a destructor: Python would only print it, and go on."""
    if lost.exc_type is KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)
    sys.__unraisablehook__(lost)


def _find_verb(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """The verb of the command line, or of the line that a shell asks to be completed; None without one."""
    line = env.get("COMP_WORDS") or env.get("_TYPER_COMPLETE_ARGS")
    if not words and "_CFETCH_COMPLETE" in env and line is not None:
        words = line.split()[1:]
        if len(words) < 2:  # the verb itself is not complete
            return None
    return next(iter(words), None)


def _leave(code: int) -> NoReturn:
    """End the process without the interpreter's own shutdown.

    The shutdown takes the modules apart one by one, which takes a fifth of the time of a run that finds
    everything in place. It can also change the exit code: a thread of obstore wakes the event loop, and then
    takes the GIL once more. Before Python 3.14, a thread that asks for the GIL during shutdown is ended, and
    then Rust aborts the process.
    """
    atexit._run_exitfuncs()  # functions that other programs have registered, such as a tracer
    with suppress(LocalFault, ReaderGone):
        settle()
    sys.stderr.flush()
    os._exit(code)


def _run_verb(command: Callable[[], object]) -> int:
    try:
        try:
            command()
        except SystemExit as end:
            settle()
            return end.code if isinstance(end.code, int) else 0
    except CfetchError as error:
        print(f"cfetch: {error}", file=sys.stderr)
        return 128 + error.signal_number if isinstance(error, Interrupted) else error.exit_code
    except ReaderGone:
        return 128 + signal.SIGPIPE
    except MemoryError:
        print("cfetch: this machine has no memory left; lower --concurrency or --processes", file=sys.stderr)
        return LocalFault.exit_code
    except Exception as bug:  # noqa: BLE001 - the last line of defence; its text may hold a secret, so only places are shown
        if isinstance(bug, UnicodeEncodeError) and bug.encoding == sys.getfilesystemencoding() != "utf-8":
            print(
                f"cfetch: the locale writes names of files in {bug.encoding}, which cannot hold every name; "
                "run the command again with PYTHONUTF8=1",
                file=sys.stderr,
            )
            return LocalFault.exit_code
        _print_places(bug)
    return CfetchError.exit_code


def _print_places(bug: BaseException) -> None:
    if isinstance(bug, ModuleNotFoundError) and bug.name in _OF_UNIX:
        lines = [f"cfetch: this platform lacks Python's module {bug.name}; run it on Linux or macOS"]
    else:
        lines = [*describe_bug(bug), "cfetch: report these lines, with what `cfetch doctor` prints"]
    print("\n".join(lines), file=sys.stderr)
