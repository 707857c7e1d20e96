"""What commands print: results on stdout, as one JSON document or as lines; messages on stderr."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

from cfetch.base.errors import Held
from cfetch.base.secret import encode_json

if TYPE_CHECKING:
    from cfetch.base.records import Summary
    from cfetch.show.tables import Tables

T = TypeVar("T")


def print_document(document: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(encode_json(document) + "\n")


def print_result(document: object, lines: Iterable[str], *, json: bool) -> None:
    """Print a result: the document for ``--json``, otherwise the lines."""
    if json:
        print_document(document)
        return
    for line in lines:
        typer.echo(line)


def print_tables(document: T, view: "Callable[[T], Tables]", *, json: bool) -> None:
    """Print a result: the document for ``--json``, otherwise the tables that ``view`` makes of it."""
    from cfetch.show.tables import show

    if json:
        print_document(document)
    else:
        show(view(document))


def print_message(line: str) -> None:
    """Print a message about the command's work on stderr."""
    print_progress(f"cfetch: {line}")


def print_progress(line: str) -> None:
    """Print a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)


def progress_printer(*, quiet: bool) -> Callable[[str], None]:
    """The function that prints lines of progress; with ``--quiet`` it prints nothing."""
    return (lambda _: None) if quiet else print_progress


def end_with(summary: "Summary", *, json: bool) -> None:
    """Print the document of a run for ``--json``, and exit with its code."""
    if json:
        print_document(summary)
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


@contextmanager
def document_if_held(*, json: bool) -> Iterator[None]:
    """Print a document for ``--json`` also if another live run holds the plan."""
    try:
        yield
    except Held as held:
        if json:
            from cfetch.show.plan_view import held_document

            print_document(held_document(held))
        raise
