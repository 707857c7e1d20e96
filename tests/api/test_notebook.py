"""The bar in a notebook: it follows the events, and shows their text as text."""

import sys

import pytest
from IPython import display

import cfetch


class Handle:
    """Keeps what a cell would show."""

    def __init__(self):
        self.shown = []

    def update(self, bar):
        self.shown.append(bar._repr_html_())


@pytest.fixture
def handle(monkeypatch):
    """What IPython gives for a display that can be changed."""
    handle = Handle()
    monkeypatch.setattr(display, "display", lambda bar, *, display_id: display_id and handle)
    return handle


def test_the_bar_follows_the_run(handle, site, tmp_path):
    """It ends full, with the summary in words."""
    bar = cfetch.NotebookBar()
    assert repr(bar) == "starting"
    cfetch.download([site.url("a"), site.url("b")], to=tmp_path, on_event=bar)
    assert 'value="0" max="2"' in handle.shown[0]
    assert 'value="2" max="2"' in handle.shown[-1]
    assert "completed: 2 of 2 files in place, 2.0 KiB in " in handle.shown[-1]
    assert repr(bar) in handle.shown[-1]


def test_without_ipython_it_says_what_is_missing(monkeypatch):
    """The name of the package is in the message."""
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(cfetch.UsageError, match="pip install ipython"):
        cfetch.NotebookBar()
