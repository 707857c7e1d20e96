"""README.md and its pages are checked: what they show is what the program prints, what they name exists."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
import yaml

from cfetch.base.registry import SHIPPED
from cfetch.cli.foreign_flags import HARMLESS
from tests.needs import case, is_plugin

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
PAGES = {page.name: page.read_text() for page in (PROJECT / "docs").glob("*.md")}


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
    verbs = re.findall(r"^  (\w+)  +[A-Z]", printed("--help"), re.MULTILINE)
    assert len(verbs) >= 5
    assert [verb for verb in verbs if f"`cfetch {verb}" not in README] == []


# Every verb's options, from one process: to start one for each verb would take twenty times as long.
LIST_OPTIONS = """
import typer
from cfetch.cli.app import add_verbs, app

def walk(command):
    for param in command.params:
        print(*param.opts, *param.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        walk(inner)

add_verbs()
walk(typer.main.get_command(app))
"""


@pytest.mark.needs_plugins
def test_options_it_names_exist():
    """No option is promised that is not there."""
    listed = subprocess.check_output([sys.executable, "-c", LIST_OPTIONS], cwd=PROJECT, text=True)
    known = {*listed.split(), *HARMLESS, "--help", "--help-all"}
    assert len(known) > 100
    pages = [
        README,
        *(PAGES[name] for name in ("command-line.md", "guarantees.md", "networks.md", "plans.md")),
    ]
    told = re.sub(r"`python benchmarks/[^`]*`", "", "\n".join(pages))
    assert set(re.findall(r"--[a-z][a-z0-9-]+", told)) - known == set()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", README))))
def test_what_it_links_to_exists(target):
    """Every link leads somewhere."""
    assert (PROJECT / target).exists()


SCRIPTS = set(re.findall(r"(?:scripts|benchmarks)/[\w.-]+", README + PAGES["figures.md"]))


@pytest.mark.parametrize("script", sorted(SCRIPTS))
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
    assert ended.stderr in PAGES["manifests.md"]
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_its_manifest_is_one(tmp_path):
    """Somebody who copies the example is not told of faults."""
    example = re.findall(r"```json\n(.*?)```", PAGES["manifests.md"], re.DOTALL)[0]
    manifest = tmp_path / "manifest.json"
    manifest.write_text(example)
    assert re.search(r"files +2\n", printed("manifest", "check", str(manifest)))


def test_no_figure_is_missing():
    """A place that waits for its figure is not a README."""
    assert not re.search(r"\bFIG_|HELP_ROOT|TODO|TBD", README + PAGES["figures.md"])


def test_its_exit_codes_are_the_errors():
    """The codes of the error tree, and no other, stand in the table."""
    from cfetch.base import errors

    codes = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.CfetchError)
    }
    told = re.search(r"Exit codes: (.*?)\n-", PAGES["command-line.md"], re.DOTALL)
    assert told is not None
    assert {str(code) for code in codes} <= set(re.findall(r"\d+", told[1]))


_ROOT: dict[str, Any] = {}
COMMAND = re.compile(r"^(?:.*\| *)?(cfetch [a-z][^#|>&;\n]*)", re.MULTILINE)
COMMANDS = sorted(
    {
        (name, " ".join(command.split()))
        for name, page in {"README.md": README, **PAGES}.items()
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for command in COMMAND.findall(block.replace("\\\n", " "))
    }
)


@pytest.mark.parametrize(
    ("page", "command"),
    [
        case(page, command, needs_plugins=is_plugin(SHIPPED["verbs"].get(command.split()[1], "")))
        for page, command in COMMANDS
    ],
)
def test_every_command_in_a_document_is_one(page, command):
    """Verb, options, their values and the number of arguments are what the program takes."""
    from cfetch.cli.app import add_verbs, app

    if "commands" not in _ROOT:
        add_verbs()
        _ROOT["commands"] = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    found = _ROOT["commands"]
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    found.make_context("cfetch", words)


def test_the_page_of_mistakes_is_that_of_the_list():
    """Seventy-eight of them; all answers are good."""
    text = (PROJECT / "benchmarks/mistakes.yaml").read_text(encoding="utf-8")
    mistakes = [mistake for group in yaml.safe_load(text).values() for mistake in group]
    rows = [row for row in PAGES["mistakes.md"].splitlines() if row.startswith("| ")][1:]
    assert len(mistakes) == len(rows) == 78
    for mistake, row in zip(mistakes, rows, strict=True):
        assert row.split(" | ")[3:5] == [*mistake["grades"]]
        assert mistake["said"].replace("{url}", "http://HOST/") in row
    assert {mistake["grades"][1] for mistake in mistakes} == {"A"}


def test_the_moving_picture_is_small_and_whole():
    """It is loaded with the page; a picture that is cut off is no XML."""
    picture = PROJECT / "docs/demo.svg"
    assert picture.stat().st_size < 300 * 1024
    assert "script" not in picture.read_text()
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


DOCUMENTS = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
    *(PROJECT / "docs").glob("*.md"),
]


def anchors_of(page):
    """The anchors that a site makes of a page's headings."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_of_a_document_lead_somewhere(page):
    """To a file, and to a heading in it, as scripts/docs checks too."""
    for target in re.findall(r"\]\((?!http)([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        assert not anchor or anchor in anchors_of(other), target


def test_the_site_has_every_document():
    """A page that the navigation leaves out is found by search only."""
    nav = (PROJECT / "zensical.toml").read_text()
    names = [str(page.relative_to(PROJECT)) for page in DOCUMENTS]
    assert [name for name in names if f'"{name}"' not in nav] == []
