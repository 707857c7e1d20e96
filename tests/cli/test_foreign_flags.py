"""Flags that people know from curl, wget, aria2 and rclone."""

import re

import pytest
import typer

from cfetch.base.config.option_table import OptionTable
from cfetch.cli.app import add_verbs, app
from cfetch.cli.foreign_flags import FLAGS, drop_harmless, find_foreign, list_owners, suggest
from tests.cli.verbs import cfetch

OWN = ["-o", "--to", "-q", "-n", "--header", "-H"]
VALUED = ["-o", "--to", "--header", "-H"]


@pytest.mark.parametrize(("words", "said"), [
    (["--transfers", "4"], "--concurrency"), (["--retries=3"], "--max-attempts"),
    (["-x4"], "--per-host"),
    (["-x", "http://p"], "--proxy URL"), (["-O", "a"], "-o FILE"), (["-k"], "--ca-file"),
    (["--bwlimit", "1M"], "--limit-rate"), (["-i", "l.txt"], "cfetch download LIST"),
    (["-P", "d"], "--to DIR"),
    (["-o", "-O"], None), (["--header", "-k"], None), (["--", "-O"], None),
    (["-nO"], None), (["--own"], None),
    (["-"], None), (["-oout"], None), (["-to", "d"], None), (["-nv"], "--quiet"),
])  # fmt: skip
def test_a_flag_of_another_program_is_named_in_cfetchs_words(words, said):
    """Not a value, not what comes behind two dashes, and never a guess by letters."""
    found = find_foreign(words, OWN, VALUED)
    assert (found is None) if said is None else (said in (found or ""))


def test_a_letter_with_two_meanings_is_answered_with_both():
    """Nobody can know which program was meant."""
    for letter in ("-O", "-x", "-i", "-k", "-s", "-d", "-A", "-b", "-m"):
        assert len(re.findall(r"for (?:curl|wget|aria2)", FLAGS[letter])) == 2, letter


def test_every_own_flag_that_an_answer_names_exists():
    """Of download, or of the verb beside which it stands."""
    own = {f"--{name.replace('_', '-')}" for name in OptionTable.__dataclass_fields__} | {
        "--sha256",
        "--delete",
    }
    named = {flag for text in FLAGS.values() for flag in re.findall(r"--[a-z][a-z0-9-]+[a-z0-9]", text)}
    assert named <= own


def test_flags_for_what_cfetch_does_anyway_are_accepted():
    """-nc is one flag, and no dry run together with -c."""
    words = ["a", "-c", "-nc", "--continue", "--resume", "-H", "-c", "-n", "--", "-c"]
    assert drop_harmless(words, OWN, VALUED) == ["a", "-H", "-c", "-n", "--", "-c"]


@pytest.mark.parametrize(("name", "words", "said"), [
    ("-t", ["-to"], "write --to"), ("--heeder", ["--heeder"], "did you mean --header?"),
    ("--quux", [], "--help-all lists all options of this command"),
])  # fmt: skip
def test_a_slip_of_the_hand_is_answered_with_what_was_meant(name, words, said):
    """One hyphen too few, or a wrong letter; what is like nothing is told where all options stand."""
    assert suggest(name, words, OWN) == said


async def test_the_command_line_answers_so(tmp_path):
    """Exit code 2 and one line; and a download with -c goes on as without."""
    done = await cfetch("download", "x.txt", "--transfers", "4")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("cfetch: --transfers is a flag of another program: --concurrency")
    (tmp_path / "empty.txt").write_text("")
    done = await cfetch("download", tmp_path / "empty.txt", "-c", "-nc", "--to", tmp_path / "to")
    assert "has no entries" in done.err


def test_an_option_of_other_commands_is_said_to_be_theirs():
    """``sync --wait`` was answered with the number of options only."""
    theirs = "leave it out, as only cfetch a, cfetch b and 1 more have it"
    said = f"{theirs}; --help-all lists all options of this command"
    assert suggest("--wait", ["--wait"], OWN, ["cfetch a", "cfetch b", "cfetch c"]) == said
    add_verbs()
    commands = typer.main.get_command(app)
    assert {"cfetch download", "cfetch plan run"} <= set(list_owners(commands, "--wait"))
    assert "cfetch sync" not in list_owners(commands, "--wait")
