"""Opens the listeners that show a run to others: the live page (``--serve``), the metrics' textfile."""

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cfetch.base.errors import UsageError
from cfetch.base.events import Listener, fan_out
from cfetch.base.secret import SecretText
from cfetch.storage.outputs import open_output


@contextmanager
def open_serving(
    serve: str | None,
    textfile: str | None = None,
    *,
    names: Sequence[str] = (),
    token_env: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Listener]:
    """A listener for the page at the address ``serve`` and for the file ``textfile``; it may do nothing.

    The page's address is printed on stderr. ``token_env`` names the variable with the token of its readers.
    Without it there is none on loopback, and a random one elsewhere. No token is printed: stderr ends in
    journals and logs of jobs. ``names``: of ``PageState``.

    Raises:
        UsageError: the address cannot be used, there is no such variable, or the extra is not installed.
    """
    listeners: list[Listener] = []
    with ExitStack() as stack:
        if serve is not None:
            from cfetch.plugins.monitors.page_server import PageServer, read_address

            address = read_address(serve)
            token = _choose_token(token_env, environ or os.environ, is_loopback=address.is_loopback)
            server = stack.enter_context(PageServer(address, token, names, _print_line))
            line = f"the run is shown at {server.url}"
            if token_env is not None:
                line += f"; its readers send the token in {token_env}"
            elif token is not None:
                path = stack.enter_context(_keep_link(f"{server.url}?token={token.reveal()}"))
                line += f"; the link with its token is in {path}, which only you can read"
            _print_line(line)
            listeners.append(server)
        if textfile is not None:
            from cfetch.plugins.monitors.openmetrics import MetricsTextfile

            listeners.append(MetricsTextfile(Path(textfile)))
        yield fan_out(*listeners)


def _choose_token(
    token_env: str | None, environ: Mapping[str, str], *, is_loopback: bool
) -> SecretText | None:
    if token_env is not None:
        token = environ.get(token_env)
        if not token:
            raise UsageError(f"--serve-token-env names {token_env}, but that variable is not set")
        return SecretText(token)
    return None if is_loopback else SecretText(secrets.token_urlsafe(24))


@contextmanager
def _keep_link(link: str) -> Iterator[Path]:
    """Keep the link, in the ``with`` block, in a new file that only its owner reads. Raises LocalFault."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    path = folder / f"cfetch-page-{secrets.token_hex(8)}"
    with open_output(path, private=True) as file:
        file.write(f"{link}\n")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
