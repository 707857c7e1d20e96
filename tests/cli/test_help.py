"""Short help, the manual page, short flags, and the completion of the three shells."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
from typer.core import TyperOption

from cfetch.cli.app import add_verbs, app
from cfetch.cli.manual import manual_lines
from cfetch.cli.options import RARE
from cfetch.cli.short_help import first_clause

ROOT = Path(__file__).parents[2]


def run(*words, **env):
    return subprocess.run(
        [sys.executable, "-m", "cfetch", *words],
        cwd=ROOT, env={**os.environ, "COLUMNS": "80", **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def commands():
    """Every command with its name."""
    add_verbs()

    def walk(group, prefix):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{prefix}{name} ")
            else:
                yield f"{prefix}{name}", command

    return [*walk(typer.main.get_command(app), "")]


@pytest.mark.parametrize("verb", [[], ["download"], ["get"], ["sync"], ["report"], ["plan"]], ids=" ".join)
def test_short_help_is_short(verb):
    """A terminal shows nearly all of it at once, and it says where the rest is."""
    words = run(*verb, "--help")
    assert words.returncode == 0
    assert len(words.stdout.splitlines()) <= 25
    assert "--help-all shows " in words.stdout


@pytest.mark.parametrize("words", [[], ["--help"]], ids=" ".join)
def test_the_list_of_verbs_fits_a_screen(words):
    """Of 24 lines, with the prompt."""
    lines = run(*words).stdout.splitlines()
    assert (lines[0].split()[0], len(lines) <= 23) == ("Usage:", True)
    assert any(line.split()[:1] == ["volume"] for line in lines)


def test_short_help_has_what_most_people_need():
    """Where to, how many, how fast; no option of experts."""
    text = run("download", "-h").stdout
    names = re.findall(r"--[a-z-]+", text)
    assert {"--to", "--concurrency", "--limit-rate", "--header", "--dry-run"} <= {*names}
    assert 12 <= len({*names} - {"--help-all"}) <= 17
    assert {"--include", "--exclude", "--set", "--verbose"} <= {*names}


def test_what_one_policy_or_a_rare_set_up_reads_is_out_of_sight_and_accepted():
    """No help shows it; the manual page does, and it is a flag and a ``--set`` for good."""
    text = run("download", "--help-all").stdout
    assert "--per-host" in text
    assert {name for name in RARE if f"--{name.replace('_', '-')} " in text} == set()
    shown = run(
        "download", "--heartbeat-misses", "7", "--set", "padding=3s", "--set", "to=a", "--show-config"
    )
    assert re.search(r"^heartbeat_misses: 7 ", shown.stdout, re.MULTILINE)
    assert re.search(r"^padding: 3s ", shown.stdout, re.MULTILINE)
    both = run("download", "--set", "concurrency=3", "-j", "4", "--show-config").stdout
    assert re.search(r"^concurrency: 4 ", both, re.MULTILINE)


def test_a_first_clause():
    """It ends before a second thought; an abbreviation's full stop does not end it."""
    assert first_clause("Read this. Also that.") == "Read this."
    assert first_clause("Bytes a second, like 1.5M (default: none).") == "Bytes a second, like 1.5M."
    assert first_clause("One; two") == "One."


@pytest.mark.needs_plugins
def test_the_manual_page_is_that_of_the_program():
    """After a change of an option: python -m cfetch.cli.manual > man/cfetch.1 ."""
    assert (ROOT / "man/cfetch.1").read_text() == "".join(f"{line}\n" for line in manual_lines())


def test_the_manual_page_has_every_option():
    """Each option of each command is described somewhere."""
    told = (ROOT / "man/cfetch.1").read_text().replace("\\-", "-")
    for name, command in commands():
        assert f".SS cfetch {name} " in told
        for param in command.params:
            if isinstance(param, TyperOption):
                word = max(param.opts, key=len)
                assert word in told or f"--[no-]{word[2:]}" in told


def test_short_flags():
    """As curl, wget and aria2 users type them; no command has one of them twice."""
    for name, command in commands():
        flags = Counter(flag for param in command.params for flag in param.opts if len(flag) == 2)
        assert [flag for flag, uses in flags.items() if uses > 1] == [], name
    words = ["-j", "3", "-q", "-v", "-n", "-o", "x", "-H", "A: b", "--header-host", "h"]
    shown = run("download", *words, "--show-config").stdout
    facts = ["to: x", "concurrency: 3", "quiet: true", "verbose: true", "dry_run: true"]
    assert [fact for fact in facts if not re.search(f"^{fact} +#", shown, re.MULTILINE)] == []


def complete(shell, *words, cwd=ROOT):
    """What ``words`` complete to, the last of which is not finished."""
    env = {"_CFETCH_COMPLETE": f"complete_{shell}", "COMP_WORDS": " ".join(["cfetch", *words])}
    env |= {"COMP_CWORD": str(len(words)), "_TYPER_COMPLETE_ARGS": env["COMP_WORDS"]}
    env |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "PYTHONPATH": str(ROOT)}
    code = "import sys; sys.argv = ['cfetch']; from cfetch.__main__ import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return set(re.findall(r"[\w-]+", ended.stdout))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_values_complete(shell):
    """The words of an option, the verbs, and the long names."""
    assert complete(shell, "download", "--durability", "p") & {"power", "crash"} == {"power"}
    assert complete(shell, "dow") >= {"download"}
    assert complete(shell, "download", "--dura") >= {"--durability"}


_IN_SHELL = {  # what asks an interactive shell what a line completes to
    "bash": """
        . ./script; COMP_WORDS=(cfetch download --durability p); COMP_CWORD=3
        $(complete -p cfetch | sed 's/.* -F \\([^ ]*\\) .*/\\1/') cfetch; echo "${COMPREPLY[@]}"
    """,
    "fish": "source ./script; complete -C 'cfetch download --durability p'",
    "zsh": """
        zmodload zsh/zpty; zpty shell zsh -f -i
        zpty -w shell 'autoload -Uz compinit; compinit -D -u; source ./script'
        zpty -w -n shell $'cfetch download --durability p\\t'
        zpty -r shell shown '*power*'; echo power; zpty -d shell
    """,
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_real_shell_completes_the_value_of_an_option(shell, tmp_path):
    """With the script that the command prints for it."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}: apt-get install {shell}")
    command = tmp_path / "cfetch"
    code = "import sys; sys.argv[0] = 'cfetch'; from cfetch.__main__ import main; main()"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    source = {**env, "_CFETCH_COMPLETE": f"source_{shell}"}
    with (tmp_path / "script").open("wb") as script:
        subprocess.run([command], env=source, stdout=script, check=True)
    done = subprocess.run(
        [shell, "-c", _IN_SHELL[shell]], cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout.split() == ["power"], done.stderr


def test_instants_complete(tmp_path):
    """Those of the timeline of --to; where there is none, nothing, and no message."""
    (tmp_path / "m.json").write_text('{"version": 1, "files": [{"url": "http://nobody.test/a", "size": 10}]}')
    target = str(tmp_path / "to")
    scheduled = run("plan", "schedule", str(tmp_path / "m.json"), "--to", target)
    instant = scheduled.stdout.strip()
    listed = [run("plan", "list", *words).stdout for words in ([target], ["--to", target])]
    assert instant in listed[0]  # a directory as `cfetch report` takes it
    assert listed[0] == listed[1]
    assert complete("bash", "plan", "show", "--to", target, "2") == {*re.findall(r"[\w-]+", instant)}
    assert complete("bash", "plan", "show", "--to", str(tmp_path / "none"), "2") == set()


def test_a_list_of_verbs_inspects_no_option():
    """To inspect the 900 of all verbs would take half of the time of ``cfetch --help``."""
    code = (
        "import typer; from cfetch.cli.app import add_verbs, app; add_verbs('');"
        "verbs = typer.main.get_command(app).commands;"
        "print(*(len(verb.params) for verb in verbs.values())); print(verbs['sync'].help)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    counts, purpose, *_ = ran.stdout.splitlines()
    assert set(counts.split()) == {"0"}
    assert purpose.startswith("Keep a directory equal to a source:")


def test_a_terminal_of_no_known_size_shows_pages():
    """Shells of containers and of other programs say 0 columns, at which Rich prints not one character."""
    page = run("plan", "--help-all", COLUMNS="0", LINES="0").stdout
    assert "rollback" in page
