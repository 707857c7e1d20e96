"""SECURITY.md is true: its commands are there and understand their options, and each promise is attacked."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
TEXT = (PROJECT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")][1:]
COMMANDS = [row[2].strip("`") for row in ROWS]


def command_line(words):
    """What a command runs, without its options."""
    if words[0] == "python":
        return [words[1]]
    module = re.search(r"^exec \S+ -m (\S+)", (PROJECT / words[0]).read_text(), re.MULTILINE)
    assert module, f"{words[0]} runs no module"
    return ["-m", module[1]]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.needs_plugins
def test_its_commands_are_there_and_know_their_options(command):
    """Whoever wants to count again can."""
    words = command.split()
    done = subprocess.run(
        [sys.executable, *command_line(words), "--help"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", done.stdout))


def test_each_promise_is_attacked():
    """Those of docs/guarantees.md, by number."""
    guarantees = (PROJECT / "docs/guarantees.md").read_text(encoding="utf-8")
    promises = {int(number) for number in re.findall(r"^(\d+)\. ", guarantees, re.MULTILINE)}
    attacked = set()
    for row in ROWS:
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", row[0]):
            attacked |= set(range(int(first), int(last or first) + 1))
    assert promises
    assert attacked == promises


def test_it_names_no_address_and_only_documents_that_exist():
    """Reports go through the repository."""
    assert "@" not in TEXT
    assert "http" not in TEXT
    for target in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (PROJECT / target).exists()
