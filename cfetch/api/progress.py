"""The bar of ``progress=True``: in a notebook's cell, on a terminal, or as lines in a log."""

import sys
from contextlib import AbstractContextManager, nullcontext

from cfetch.base.events import Listener
from cfetch.show.live.open import open_dashboard


def show_progress(*, is_wanted: bool) -> AbstractContextManager[Listener]:
    """A context manager that yields the listener which shows the run."""
    if not is_wanted:
        return nullcontext(lambda _: None)
    if _is_notebook():
        from cfetch.api.notebook import NotebookBar

        return nullcontext(NotebookBar())
    return open_dashboard()


def _is_notebook() -> bool:
    """Whether the program runs in a kernel of Jupyter, whose cells show HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
