"""``download --to -``: files go to standard output, as a tar archive or one after the other."""

import io
import re
import subprocess
import sys
import tarfile

import pytest

from tests.app.site import NAMES, Site


@pytest.fixture
def site(tmp_path):
    """A server of five files, and the command that downloads them."""
    opened = Site()
    (tmp_path / "urls.txt").write_text("".join(f"{opened.url}{name}\n" for name in NAMES))
    yield opened
    opened.close()


@pytest.fixture
def run(tmp_path):
    """Runs the command in a directory of its own; returns exit code, stdout and stderr."""

    def run_it(*options, to="-"):
        command = [sys.executable, "-m", "cfetch", "download", "urls.txt", "--to", to, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert [path.name for path in tmp_path.iterdir()] == ["urls.txt"]
        return done.returncode, done.stdout, done.stderr.decode()

    return run_it


def members(archive):
    """The files of a tar archive, in its order."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: content.read() for member in tar if (content := tar.extractfile(member))}


def test_files_go_to_stdout_in_order(site, run):
    """As an archive with their names, or joined."""
    code, archive, _ = run("--ordered", "-q")
    assert (code, list(members(archive).items())) == (
        0,
        [(name.rpartition("/")[2], site.files[name]) for name in NAMES],
    )
    assert run("--joined", "-q")[:2] == (0, b"".join(site.files[name] for name in NAMES))


def test_what_cannot_be_had_lacks_in_an_archive_and_ends_joined_bytes(site, run):
    """The exit code is 1, and the file is named; joined bytes would have a gap that nobody sees."""
    del site.files[NAMES[2]]
    code, archive, messages = run("--ordered")
    assert (code, len(members(archive)), "2.bin: HTTP 404" in messages) == (1, 4, True)
    assert "then run the same command again: all files are fetched anew\n" in messages
    assert re.search(r"^partly done: 4 of 5 files handed over, ", messages, re.MULTILINE)
    code, joined, _ = run("--joined")
    assert (code != 0, joined) == (True, site.files[NAMES[0]] + site.files[NAMES[1]])


def test_a_reader_that_goes_ends_the_run(site, tmp_path):
    """As ``head`` does: with code 141 and without a message."""
    site.files = {name: bytes(1 << 20) for name in NAMES}
    command = [sys.executable, "-m", "cfetch", "download", "urls.txt", "--to", "-", "-q"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1000)
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (141, b"")


@pytest.mark.parametrize(
    ("options", "to", "said"),
    [
        (("--json",), "-", "standard output, which --to - needs"),
        (("--memory", "lots"), "-", "memory"),
        (("--to", "out"), "-", "cannot be one of several"),
    ],
)
def test_options_that_do_not_fit_are_refused(site, run, options, to, said):
    """Before a request, with the words to change."""
    code, out, messages = run(*options, to=to)
    assert (code, out, site.asked) == (2, b"", [])
    assert said in " ".join(messages.split())
