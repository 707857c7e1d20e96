"""``cfetch doctor``: what is installed, what this machine permits, what can be reached; for a bug report."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cfetch.base.errors import UsageError
from cfetch.base.schemes import scheme_of
from cfetch.base.secret import SecretUrl, hide_login, printable
from cfetch.cli.options import PANELS, extend, make_config_parameters, make_parameter, resolve_given
from cfetch.cli.output import print_result
from cfetch.cli.verb_options import JsonOption

if TYPE_CHECKING:
    from cfetch.base.config.layers import Resolved

_NAMES = ("to", "concurrency", *PANELS["Network"], *PANELS["Logins and headers"])


def _with_ways(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags that decide where files go and how servers are asked, to ``command(…, resolved)``."""

    def call(given: dict[str, Any]) -> None:
        command(resolved=resolve_given(given, _NAMES), **given)

    return extend(command, call, [*map(make_parameter, _NAMES), *make_config_parameters()[:2]])


@_with_ways
def doctor(
    *,
    urls: Annotated[
        list[str] | None,
        typer.Argument(
            help="URLs of files to ask for; no body is downloaded.", metavar="[URL...]", show_default=False
        ),
    ] = None,
    json: JsonOption = False,
    resolved: "Resolved",
) -> None:
    """Check this installation, machine, destination and network. Paste the output into a bug report.

    The report names the versions of cfetch, Python and the libraries; the extras, and what each lacks; the
    limits of processors, memory, open files and threads; and what the destination's file system cannot do.
    Each URL gets one request, over the proxy and with the logins that a download would use.

    Queries of URLs, passwords and tokens are hidden. The destination gets a small directory, which is removed
    at once. The exit code is 0 if there is no problem, and 1 otherwise.

    Examples:

      cfetch doctor

      cfetch doctor https://data.example.org/a.bin --to data/

      cfetch doctor https://data.example.org/a.bin --proxy-from-env --json
    """
    for url in urls or []:
        _refuse_no_url(url)
    from cfetch.app.doctor import diagnose
    from cfetch.show.doctor_view import doctor_lines

    diagnosis = diagnose(resolved, urls or [], os.environ)
    print_result(diagnosis, doctor_lines(diagnosis), json=json)
    if diagnosis.problems:
        raise typer.Exit(1)


def _refuse_no_url(text: str) -> None:
    from urllib.parse import urlsplit  # most calls name no URL

    scheme = scheme_of(text)
    try:
        host = urlsplit(text).hostname if scheme else None
    except ValueError:
        host = None
    if not host:
        raise UsageError(
            f"{SecretUrl(text) if scheme else printable(hide_login(text))} is no URL; write https://HOST/PATH"
        )
