"""README.md is checked: what it shows is what the program prints, what it names exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()


def printed(*words, code=0):
    """What the command prints on an 80 column terminal without colour."""
    environment = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        [sys.executable, "-m", "cfetch", *words],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


def test_every_verb_is_named():
    """A verb that README does not know is a secret."""
    verbs = re.findall(r"^│ (\w+) ", printed("--help"), re.MULTILINE)
    assert len(verbs) >= 5
    assert [verb for verb in verbs if f"`cfetch {verb}" not in README] == []


# Every verb's options, from one process: to start one for each verb would take twenty times as long.
LIST_OPTIONS = """
import typer
from cfetch.cli.app import _verbs, app

def walk(command):
    for param in command.params:
        print(*param.opts, *param.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        walk(inner)

_verbs()
walk(typer.main.get_command(app))
"""


def test_options_it_names_exist():
    """No option is promised that is not there."""
    listed = subprocess.check_output([sys.executable, "-c", LIST_OPTIONS], cwd=PROJECT, text=True)
    known = {*listed.split(), "--help"}
    assert len(known) > 100
    told = re.sub(r"`python benchmarks/[^`]*`", "", README)
    assert set(re.findall(r"--[a-z][a-z0-9-]+", told)) - known == set()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_what_it_links_to_exists(target):
    """Every link leads somewhere."""
    assert (PROJECT / target).exists()


@pytest.mark.parametrize("script", sorted(set(re.findall(r"(?:scripts|benchmarks)/[\w.-]+", README))))
def test_what_it_runs_exists(script):
    """Every script and benchmark that it names is there."""
    assert (PROJECT / script).exists()


def test_the_faults_it_shows_are_the_programs(tmp_path):
    """The sample of a bad manifest is what a bad manifest gives."""
    (tmp_path / "manifest.json").write_text(
        '{"version": 1, "base_url": "https://h.example/", "files": [\n'
        '{"url": "a", "size": NaN},\n{"url": "b", "path": "../x"},\n{"url": "c", "sise": 3}]}'
    )
    command = [sys.executable, "-m", "cfetch", "download", "manifest.json"]
    ended = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr in README
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_its_manifest_is_one(tmp_path):
    """Somebody who copies the example is not told of faults."""
    (example,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(example)
    assert re.search(r"files +2\n", printed("manifest", "check", str(manifest)))


def test_no_figure_is_missing():
    """A place that waits for its figure is not a README."""
    assert not re.search(r"\bFIG_|HELP_ROOT|TODO|TBD", README)


def test_its_exit_codes_are_the_errors():
    """The codes of the error tree, and no other, stand in the table."""
    from cfetch import errors

    codes = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.CfetchError)
    }
    told = re.search(r"Exit codes: (.*?)\n-", README, re.DOTALL)
    assert told is not None
    assert {str(code) for code in codes} <= set(re.findall(r"\d+", told[1]))
