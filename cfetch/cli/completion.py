"""The completion of a shell, which typer installs in the user's home directory, or shows."""

import os

import typer

from cfetch.base.errors import LocalFault
from cfetch.base.home import find_home
from cfetch.storage.files import local_fault


def install(app: typer.Typer) -> None:
    """Run a command line with ``--install-completion`` or ``--show-completion``. Raises LocalFault."""
    if find_home(os.environ) is None:
        raise LocalFault(
            "completion is installed in the home directory, and this user has none; set HOME to a directory"
        )
    try:
        app()
    except OSError as error:
        raise local_fault(error, "cannot install the completion in the home directory") from None
