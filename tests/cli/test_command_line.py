"""The command line as such: streams that fail, what help shows, configuration without a job."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.base.config.option_table import FORMULA
from cfetch.base.config.settings import KINDS, Settings
from cfetch.cli.options import RARE
from tests.needs import case
from tests.warm import CHANGED

ROOT = Path(__file__).parents[2]
VERBS = [
    [],
    ["download"],
    ["get"],
    ["bench"],
    ["report"],
    ["verify"],
    *(["manifest", verb] for verb in ("check", "build")),
    *(["feed", verb] for verb in ("serve", "split")),
]


def shell(script, *words, **env):
    """Run ``script`` in a shell where ``$@`` is cfetch with ``words``."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "cfetch", *map(str, words)],
        env=clean | {"COLUMNS": "80", "PYTHONUTF8": "1"} | env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def cfetch(*words, **env):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    return subprocess.run(
        [sys.executable, "-m", "cfetch", *map(str, words)],
        env=clean | {"COLUMNS": "80"} | env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def job(tmp_path):
    """The words of a run that has nothing to fetch."""
    (tmp_path / "to").mkdir()
    (tmp_path / "to/a").write_bytes(b"0123456789")
    (tmp_path / "m.json").write_text('{"version": 1, "files": [{"url": "http://nobody.test/a", "size": 10}]}')
    return ["download", tmp_path / "m.json", "--to", tmp_path / "to"]


# --- streams


@pytest.mark.parametrize(
    ("where", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
@pytest.mark.parametrize("words", [["--json"], ["--dry-run"]])
def test_a_result_that_cannot_be_written(job, where, why, words):
    """Exit 3 and one line that says so; no traceback and no complaint of the interpreter's."""
    done = shell(f'"$@" {where}', *job, *words, "--quiet")
    assert (done.returncode, done.stderr) == (3, f"cfetch: cannot write the result to stdout: {why}\n")


@pytest.mark.parametrize("words", [["--help"], ["download", "--help"], ["download", "--show-config"]])
def test_a_reader_of_stdout_that_has_gone(words):
    """141, as if SIGPIPE had ended it, and not a word."""
    done = shell('{ "$@"; echo $? >&2; } | :', *words)
    assert done.stderr == "141\n"


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_stderr_that_nobody_reads_changes_nothing(job, where):
    """Not the result, not the exit code."""
    done = shell(f'"$@" {where}', *job, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["exit_code"] == 0
    assert shell(f'"$@" {where}', "download", "no/such/file").returncode == 2


def test_a_reader_of_stderr_that_has_gone_changes_nothing(job):
    """The run's own code is that of the job, also where both streams are one pipe."""
    for code, words in ((0, job), (2, ["download", "no/such/file"]), (2, ["downlod"])):
        done = shell('{ "$@" 2>&1 >/dev/null; echo $? >&3; } 3>&2 | :', *words)
        assert done.stderr == f"{code}\n"


def test_a_closed_stdout_is_no_place_for_the_next_file(job, tmp_path):
    """The number of a closed stream is not given to a file, which would then receive what was printed."""
    done = shell('"$@" >&- 2>&- <&-', *job, "--metrics", tmp_path / "m.jsonl")
    assert done.returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [line["schema"] for line in lines] == ["cfetch.run/1", "cfetch.file/1", "cfetch.end/1"]


def test_a_closed_standard_input_is_named():
    """A manifest that should come from there cannot be read: exit 2."""
    done = shell('"$@" <&-', "download", "-", "--to", "/nonexistent/x", "--dry-run")
    assert done.returncode in (2, 3)
    assert "a bug" not in done.stderr


# --- help


@pytest.mark.parametrize(
    ("verb", "how"), [(("download",), "--help"), *((verb, "--help-all") for verb in VERBS)], ids=str
)
@pytest.mark.needs_plugins
def test_help_fits_80_columns_and_cuts_no_name(verb, how):
    """Every option is written out, and the usage line has no braces around what is required."""
    done = cfetch(*verb, how)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    (usage,) = re.findall(r"Usage: .*", done.stdout)
    assert not set("{}") & set(usage)


def test_help_names_every_option_of_download():
    """Switches with both ways in one word."""
    text = cfetch("download", "--help-all").stdout
    words = set(re.findall(r"^│ --(?:\[no-\])?([\w-]+)", text, re.MULTILINE))
    assert {name.replace("_", "-") for name in KINDS.keys() - RARE} <= words
    assert "--[no-]mitigation " in text
    assert "Usage: python -m cfetch download [OPTIONS] MANIFEST... " in text


def test_help_tells_exit_codes_and_examples():
    """Somebody who writes a script around it finds them where they look first."""
    text = cfetch("--help-all").stdout
    codes = re.findall(r"^ +(\d+)  \w", text.partition("Exit codes:")[2], re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "4", "130", "70"]
    assert "cfetch download manifest.json --to data/" in text


@pytest.mark.parametrize(
    "verb", [["download"], ["plan", "run"], case(["follow"], name="follow")], ids=" ".join
)
def test_no_example_chooses_a_policy_without_naming_it(verb):
    """Who copies an example gets the default policy, or reads which other one it asks for."""
    text = cfetch(*verb, "--help-all", COLUMNS="200").stdout
    examples = [line.split() for line in re.findall(r"^ +(cfetch .*)$", text, re.MULTILINE)]
    formula = {"--" + name.replace("_", "-") for name in FORMULA}
    assert any(words[1 : 1 + len(verb)] == verb for words in examples)
    assert [words for words in examples if formula & set(words) and "--policy" not in words] == []


def test_a_run_says_which_option_has_chosen_its_policy(job):
    """It is the first line, for people and for machines; a policy that is named, or --quiet, needs none."""
    text = "policy cloudfetch instead of adaptive, because only its formula reads padding (--padding); "
    done = cfetch(*job, "--padding", "1s")
    assert (done.returncode, done.stderr.count("note: ")) == (0, 1)
    assert f"note: {text}" in done.stderr.splitlines()[0]
    first = json.loads(cfetch(*job, "--padding", "1s", "--progress", "json").stderr.splitlines()[0])
    assert (first["event"], first["level"], first["note"][: len(text)]) == ("note", "warning", text)
    assert "policy" not in cfetch(*job, "--padding", "1s", "--policy", "cloudfetch").stderr
    assert cfetch(*job, "--padding", "1s", "--quiet").stderr == ""


@pytest.mark.needs_plugins
def test_a_follower_says_it_once_before_it_begins(tmp_path):
    """It runs many plans; which policy they have, and why, stands above all of them."""
    words = ["follow", tmp_path / "no-feed", "--to", tmp_path / "to", "--once", "--quantile", "0.5"]
    lines = cfetch(*words).stderr.splitlines()
    assert lines[0].startswith("note: policy cloudfetch instead of adaptive, because only")
    assert "policy" not in "".join(lines[1:])


# --- configuration without a job


def test_show_config_needs_no_manifest():
    """It is about the options: exit 0, and every one is shown."""
    done = cfetch("download", "--show-config", "--padding", "2s")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in KINDS)


def test_show_config_as_a_document():
    """Each value with its origin; a command that may hold a token is not shown."""
    words = ["--padding", "2s", "--refresh-command", "echo CANARY"]
    done = cfetch("download", "--show-config", "--json", *words, CFETCH_CONCURRENCY="3")
    document = json.loads(done.stdout)
    assert (done.returncode, document["schema"]) == (0, "cfetch.config/1")
    assert document["settings"].keys() == KINDS.keys()
    assert document["settings"]["padding"] == {"value": 2.0, "origin": "--padding"}
    assert document["settings"]["concurrency"] == {"value": 3, "origin": "CFETCH_CONCURRENCY"}
    assert document["settings"]["quantile"] == {"value": Settings().quantile, "origin": "default"}
    assert "CANARY" not in done.stdout


def test_without_a_manifest_there_is_nothing_to_download():
    """Exit 2, the argument's name, and where help is, in the look of all errors."""
    done = cfetch("download", "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cfetch: missing argument 'MANIFEST'; cfetch download -h shows how it is used\n"


def test_a_dry_run_for_people(job):
    """Lines with units instead of a document."""
    done = cfetch(*job, "--dry-run")
    assert done.returncode == 0
    assert "     files  1, 1 in place already\n      size  10 B\n      from  nobody.test (1)\n" in done.stdout
    assert done.stdout.endswith("nothing was downloaded\n")


def test_a_manifest_without_entries(tmp_path):
    """An error, since its maker may have failed; where it is allowed, said in as many words."""
    (tmp_path / "m.json").write_text('{"version": 1, "files": []}')
    done = cfetch("download", tmp_path / "m.json", "--to", tmp_path / "to")
    assert (done.returncode, "m.json has no entries" in done.stderr) == (2, True)
    assert cfetch("manifest", "check", tmp_path / "m.json").returncode == 2
    done = cfetch("download", tmp_path / "m.json", "--to", tmp_path / "to", "--allow-empty")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "done: there was nothing to download"


def test_a_list_whose_name_is_not_utf_8(tmp_path):
    """A plan could not keep the name; the way out takes the list as it is. A sync keeps no name."""
    name = os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9.txt")
    Path(name).write_text("http://127.0.0.1:1/a\n")
    run = shell('exec "$@"', "download", name, "--to", tmp_path / "to")
    assert (run.returncode, "is not UTF-8: rename the file, or pipe it to `-`" in run.stderr) == (2, True)
    run = shell('exec "$@"', "sync", name, "--to", tmp_path / "to", "--max-attempts", "1")
    assert (run.returncode, "cannot connect: Connection refused" in run.stderr) == (1, True)


def test_a_name_that_the_locale_cannot_write(tmp_path):
    """It is a matter of this machine, with a way out, and no bug."""
    (tmp_path / "m.txt").write_text("http://127.0.0.1:1/caf%C3%A9\n")
    in_ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = cfetch("download", tmp_path / "m.txt", "--to", tmp_path / "to", **in_ascii)
    assert (run.returncode, "run the command again with PYTHONUTF8=1" in run.stderr) == (3, True)


def test_a_late_interrupt_finds_no_handler_of_pythons(tmp_path):
    """Once the verb is over a Ctrl-C ends the process in silence: Python's own handler prints a traceback."""
    code = (
        "import atexit, signal, sys\n"
        "atexit.register(lambda: print(signal.getsignal(signal.SIGINT) == signal.SIG_DFL))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.argv = ['cfetch', '--version']\n"
        "from cfetch.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "True"), done.stderr


INTERRUPTED = """
import signal, sys
import cfetch.cli.app
class Passing:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["cfetch", "--version"]
cfetch.cli.app.add_verbs = lambda word: Passing()
cfetch.cli.app.main()
"""


def test_an_interrupt_inside_a_destructor_ends_the_process():
    """Python would print it with a traceback, and go on."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


ENDING = """
import atexit, os, sys
atexit.register(os.write, 1, b"registered, ")
class Last:
    def __del__(self, write=os.write):
        write(1, b"the interpreter's end")
sys.last = Last()
sys.argv = ["cfetch", "--version"]
from cfetch.cli.app import main
main()
"""


def test_threads_of_a_library_do_not_meet_the_end_of_the_interpreter():
    """They would abort the process, in one of ten runs that end right after a store has answered."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("cfetch ")
    assert ended.stdout.endswith("registered, ")


@pytest.mark.parametrize("blocked", [set(), {signal.SIGTERM}])
def test_a_command_blocks_the_signals_of_whoever_starts_it_and_no_others(blocked):
    """Also if it starts warm: whoever has started the first one may have blocked some."""
    said = (
        "import signal\nprint(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))), flush=True)\n"
    )
    words = [sys.executable, "-c", f"{said}import runpy\n{CHANGED}", "--version"]
    before = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert done.stdout.splitlines()[0] == str(sorted(map(int, blocked)))
