"""Opens the listeners that show a run to others: the live page (``--serve``), the metrics' textfile."""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cfetch.errors import UsageError
from cfetch.events import Listener, fan_out


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
    Without it there is none on loopback, and a random one elsewhere. ``names``: of ``PageState``.

    Raises:
        UsageError: the address cannot be used, there is no such variable, or the extra is not installed.
    """
    listeners: list[Listener] = []
    with ExitStack() as stack:
        if serve is not None:
            from cfetch.dashboard.page_server import PageServer, read_address

            address = read_address(serve)
            token = _choose_token(token_env, environ or os.environ, is_loopback=address.is_loopback)
            server = stack.enter_context(PageServer(address, token, names))
            print(f"the run is shown at {server.url}", file=sys.stderr, flush=True)
            listeners.append(server)
        if textfile is not None:
            from cfetch.report.openmetrics import MetricsTextfile

            listeners.append(MetricsTextfile(Path(textfile)))
        yield fan_out(*listeners)


def _choose_token(token_env: str | None, environ: Mapping[str, str], *, is_loopback: bool) -> str | None:
    if token_env is not None:
        token = environ.get(token_env)
        if not token:
            raise UsageError(f"--serve-token-env names {token_env}, but that variable is not set")
        return token
    return None if is_loopback else secrets.token_urlsafe(24)
