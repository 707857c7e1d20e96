"""The files that a user names for results: what is written, and what is never replaced."""

import os

import pytest

from cfetch.base.errors import UsageError
from cfetch.base.events import RunFinished
from cfetch.plugins.lab.tuning.recommendation import write_config
from cfetch.plugins.monitors.openmetrics import MetricsTextfile
from cfetch.plugins.spark.pack import write_pack
from cfetch.show.page.document import PageDocument
from cfetch.show.page.html import write_html
from cfetch.show.summary import Tally
from tests.cli.verbs import cfetch


def write_numbers(path):
    MetricsTextfile(path)(RunFinished(t_s=1.0, summary=Tally().summary(1.0)))


def write_page(path):
    write_html(PageDocument(title="t", note="", version="1", parts=[]), path)


def write_values(path):
    write_config(path, "policy: none\n")


QUICK = [write_numbers, write_page, write_values]


@pytest.mark.parametrize("write", [*QUICK, write_pack])
@pytest.mark.parametrize("target", ["/dev/null", "pipe"])
def test_a_device_or_a_pipe_is_refused_and_stays(tmp_path, write, target):
    """Nobody waits for a reader of the pipe, either."""
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "named"
    path.symlink_to(target)
    with pytest.raises(UsageError, match="a device, a pipe or a directory"):
        write(path)
    assert os.readlink(path) == target


@pytest.mark.parametrize("write", QUICK)
def test_a_symlink_stays_and_its_file_is_replaced(tmp_path, write):
    """In one step: who has the older file open reads all of it; others may read the new one by the umask."""
    target, path = tmp_path / "file", tmp_path / "named"
    target.write_text("older")
    path.symlink_to("file")
    with target.open() as older:
        write(path)
        assert older.read() == "older"
    assert os.readlink(path) == "file"
    assert target.read_text() != "older"
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert sorted(os.listdir(tmp_path)) == ["file", "named"]


@pytest.mark.parametrize("words", [
    ("bench", "--simulate", "--seeds", "2", "--html"), ("bench", "--quick", "--html"),
    ("tune", "absent.jsonl", "--html"), ("tune", "absent.jsonl", "--out"),
])  # fmt: skip
async def test_a_wrong_name_is_said_before_the_work(words):
    """A bench or a tune may take minutes."""
    ended = await cfetch(*words, "/dev/null")
    assert ended.code == 2
    assert "a device, a pipe" in ended.err
