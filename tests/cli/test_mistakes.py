"""What people do by mistake, and where terminals and platforms differ: one line that says what to do."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.schemes import KNOWN
from cfetch.cli import app
from cfetch.run.directories import make_own_directory
from cfetch.show.metrics_reading import expand_metrics
from cfetch.storage.directory import Directory
from tests.needs import case
from tests.show.records import attempt, record

HEADER = {
    "schema": "cfetch.run/1",
    "instant": "i",
    "wall_start": "w",
    "version": "0",
    "host": "h",
    "settings": {},
}


FILES = {
    "one.txt": "http://127.0.0.1:9/a.bin\n",
    "empty.txt": "",
    "comments.txt": "# nothing\n",
    "broken.json": '{"version": 1, "files": [\n{"url": "http://h/a", "size": 1}\n{"url": "http://h/b"}]}\n',
    "hash.txt": f"http://h/a.bin 3000 {5:032}\n",
    "twice.txt": "http://h/d/a.bin\nhttp://h/e/a.bin\n",
    "slash.txt": "http://h/d/\n",
    "scheme.txt": "doi:10.5281/zenodo.1\n",
    "page.txt": "<!DOCTYPE html><html><title>Sign in</title></html>",
    "torrent.txt": "d8:announce20:http://tracker.test/4:infod6:lengthi3eee",
    "csv.csv": "name,count\na,1\n",
    "wrong.yaml": "concurency: 3\n",
    "log.jsonl": "hello\n",
    "folder/x": "",
    "empty/.keep": "",
}
MISTAKES = [  # what was typed, the exit code, and what the answer has to say
    ("download", 2, "Download every file of a manifest"),
    ("download ''", 2, "the name of a manifest is empty"),
    ("download nope.txt", 2, "cannot read the manifest nope.txt: No such file or directory; is the name"),
    ("download empty.txt", 2, "empty.txt has no entries; did the command that writes it fail?"),
    ("download comments.txt", 2, "comments.txt has no entries"),
    ("download empty", 2, "there are no manifests in empty"),
    ("download s3:/bucket/a.txt", 2, "write s3://bucket/a.txt"),
    ("download https:/h/a.txt?sig=KEY", 2, "write https://h/a.txt?<redacted 1 key>"),
    ("download twice.txt --from-format excel", 2, "did you mean workbook?"),
    ("plan cancel\x1b[2J", 2, "cfetch: no such command 'cancel\\x1b[2J'"),
    case("doctor --url http://h/", 2, "write the URL without it"),
    case("download --manifests a.txt", 2, "write the MANIFEST without it"),
    ("download a.txt --to", 2, "--to needs a value: --to DIR"),
    ("plan cancel", 2, "'cancel'; cfetch plan has schedule, run, list, show, rollback, clean"),
    ("download *.nope", 2, "no file has a name like *.nope"),
    ("download broken.json", 2, "broken.json:3: expected ',' or ']', but something else stands there"),
    case("download hash.txt", 2, "hash.txt:1: its third field is a hash and no path; put a first row"),
    ("manifest check twice.txt", 1, "name files by --name-by url-path, row or hash"),
    ("download slash.txt", 2, "path: it is not given, and the url's path ends without a file name"),
    ("download scheme.txt", 2, "give it as a list by itself: cfetch download doi:10.…"),
    ("download page.txt", 2, "it is an HTML page and no list: perhaps a login"),
    ("download torrent.txt", 2, "if it has web seeds, give their URLs as a list"),
    ("download csv.csv", 2, "csv.csv:1: the column url is missing: the columns must have url"),
    ("download sftp://h/list", 2, f"its scheme is not {KNOWN}; fetch"),
    ("download one.txt --to one.txt", 3, "one.txt as a destination: it is a file; name a directory"),
    ("download one.txt --to /proc/nope", 3, "no directory can be made there; name another one"),
    ("download one.txt --state /proc/nope", 3, "no directory can be made there; name another one with"),
    ("download one.txt --to a --to a/b", 2, "to names a/b, which lies in a; give each a place of its own"),
    ("download one.txt --concurency 3", 2, "did you mean --concurrency"),
    ("download one.txt --out a", 2, "--out is a flag of another program: with `cfetch get` -o FILE"),
    ("download one.txt -to a", 2, "write --to"),
    ("download one.txt -k", 2, "cfetch always checks certificates"),
    ("download one.txt --retries 3", 2, "--max-attempts says how many tries a file has"),
    ("download one.txt --transfers 8", 2, "--concurrency (-j) says how many downloads run at a time"),
    ("download one.txt --quux", 2, "cfetch: no such option: --quux; --help-all lists all options of"),
    ("download one.txt data/", 2, "if the files are to go there, write --to data/"),
    ("download one.txt --max-failures some", 2, "such as 10, or a share of them, such as 1%"),
    ("download one.txt --set paddin=3s", 2, "no setting 'paddin' here; did you mean padding?"),
    ("download one.txt --set padding", 2, "--set is 'padding' but must be KEY=VALUE"),
    ("download one.txt --set padding=long", 2, "'long' but"),
    ("download one.txt --include *.nope", 2, "no path matches --include and --exclude"),
    ("download one.txt --include /a", 2, "must be a pattern of paths below the destination"),
    ("download one.txt --concurrency 0", 2, "--concurrency is '0' but must be from 1 to 1024"),
    ("download one.txt --limit-rate 10MBps", 2, "cfetch: --limit-rate is '10MBps' but not a rate; write"),
    ("download one.txt --policy nope", 2, "--policy is 'nope' but must be one of adaptive, cloudfetch"),
    ("download one.txt --config nope.yaml", 2, "cannot read nope.yaml: No such file or directory"),
    ("download one.txt --config wrong.yaml", 2, "unknown key 'concurency'; did you mean 'concurrency'"),
    ("download one.txt --failed-from nope", 2, "nope: cannot read the metrics: No such file or directory"),
    ("download one.txt --cookies one.txt", 2, "a cookie in Netscape's format has seven fields"),
    ("download one.txt --bearer-env NOPE_TOKEN", 2, "no environment variable of that name has a value"),
    ("download one.txt --to s3://b/p", 2, "--state, or an object store that nobody else reads"),
    ("download one.txt --to s3://b/p --state s3://b/p --engine spark", 2, "name one with --state"),
    ("download one.txt --state s3://b/p", 2, "is a directory: only plans for object stores"),
    case("follow http://127.0.0.1:1/ --to s3://b/p --state s3://b/p", 2, "name one with --state"),
    ("downlod one.txt", 2, "cfetch: no such command 'downlod'; did you mean 'download'?"),
    ("get", 2, "Download one or a few files by their URLs"),
    ("get ''", 2, "the URL is empty"),
    ("get magnet:?xt=urn:btih:abc", 2, "names a torrent and no file on a server; aria2 downloads it"),
    ("get one.txt", 2, "one.txt is no URL; for the list in that file run `cfetch download one.txt`"),
    ("report nope", 2, "nope: cannot read the metrics: No such file or directory"),
    ("report empty", 2, "in this directory; name the destination of a download, or a file of its"),
    ("report log.jsonl", 2, "; name the destination of a download"),
    case("tune empty", 2, "there are no metrics in this directory"),
    ("plan run --to empty", 2, "there is no timeline in"),
    ("plan show 1 --to empty", 2, "give the --to or --state of a download"),
    ("verify one.txt --to nope", 2, "nope: No such file or directory"),
    ("manifest build nope", 2, "cannot read the manifest nope: No such file or directory"),
    ("verify page.txt", 2, "page.txt has 1 fault; nothing was compared:"),
    ("manifest check page.txt", 2, "page.txt has 1 fault:"),
    ("manifest convert page.txt --to-format jsonl", 2, "page.txt has 1 fault; nothing was written:"),
    ("download one.txt --sha256 0", 2, "write each file's hash into the list"),
    ("manifest check csv.csv", 2, "name the column that has the URLs with --url-column"),
    ("sync - --to x", 2, "standard input has no name for a later run"),
    ("sync nope x", 2, "(x); to say where the files go, write --to DIR"),
    ("sync nope --to x", 2, "cannot read the manifest nope"),
]  # fmt: skip


LOOKS = ("cfetch: ", "[ ")  # an error is a line after the program's name; what a run says begins with its age


@pytest.mark.parametrize(("typed", "code", "said"), MISTAKES, ids=str)
def test_an_answer_says_what_happened_to_what_and_what_to_do(
    typed, code, said, tmp_path, monkeypatch, capsys
):
    """The mistakes of new users; no answer has a traceback, none says "a bug"."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["cfetch", *shlex.split(typed)])
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "")  # it would be named as "python -m pytest"
    monkeypatch.setattr(app.app, "registered_commands", [])
    monkeypatch.setattr(app.app, "registered_groups", [])
    app.add_verbs(typed.split()[0])
    found = app._run_verb(app.app)
    captured = capsys.readouterr()
    text = " ".join((captured.out + captured.err).split())
    assert (found, said in text) == (code, True), text
    assert not captured.err or captured.err.startswith(LOOKS)
    assert "Traceback" not in text
    assert "a bug in cfetch" not in text


def test_a_machine_without_memory_is_no_bug(capsys):
    """Exit code 3, as for a full disk."""

    def fill_memory() -> None:
        raise MemoryError

    assert app._run_verb(fill_memory) == 3
    assert "no memory left; lower --concurrency" in capsys.readouterr().err


def test_a_report_of_a_destination_on_a_terminal_of_ascii(tmp_path):
    """All its metrics are read; bars are drawn with what there is, and letters are spelled out."""
    folder = tmp_path / "data/.cfetch/metrics"
    folder.mkdir(parents=True)
    from cfetch.base.secret import encode_json

    rows = [encode_json(record(n, 100, attempt(end_s=1.0 + n), path=f"caf\u00e9{n}")) for n in range(3)]
    (folder / "a.jsonl").write_text("\n".join([json.dumps(HEADER), *rows, ""]))
    done = subprocess.run(
        [sys.executable, "-m", "cfetch", "report", str(tmp_path / "data")],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "caf\\u00e90" in text
    assert "---" in text
    assert "\\u2" not in text


def test_a_directory_without_metrics_is_named(tmp_path):
    """Files are passed on as they are."""
    assert expand_metrics([tmp_path / "x"]) == [tmp_path / "x"]
    with pytest.raises(UsageError, match="there are no metrics in this directory"):
        expand_metrics([tmp_path])


def test_runs_of_a_directory_are_shown_in_their_order(tmp_path):
    """The first run of a plan has no number in its name."""
    names = ["1-a.jsonl", "1-a.2.jsonl", "1-a.10.jsonl", "2-b.jsonl"]
    for name in reversed(names):
        (tmp_path / name).touch()
    assert [path.name for path in expand_metrics([tmp_path])] == names


def test_a_destination_that_is_a_file(tmp_path):
    """It is called one."""
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(LocalFault, match="it is a file; name a directory"):
        Directory(tmp_path / "f")


def test_a_state_where_no_directory_can_be_made():
    """The kernel says that there is no such directory, even to those who make it."""
    with (
        ExitStack() as stack,
        pytest.raises(LocalFault, match="no directory can be made there; name another"),
    ):
        make_own_directory(stack, Path("/proc/nope"), "i")


def test_another_platform_is_refused_in_one_line(capsys):
    """And a module that it lacks is named, as that is no bug."""
    assert app.refuse_platform("posix") is None
    assert "WSL" in str(app.refuse_platform("nt"))
    app._print_places(ModuleNotFoundError(name="resource"))
    assert capsys.readouterr().err == (
        "cfetch: this platform lacks Python's module resource; run it on Linux or macOS\n"
    )


def test_a_command_inside_a_running_loop_is_refused_in_one_line(capsys, monkeypatch):
    """As by ``%run -m cfetch`` in a notebook, whose signals and streams it would take."""
    monkeypatch.setattr(sys, "argv", ["cfetch", "--version"])
    monkeypatch.setattr(app, "guard", lambda: pytest.fail("the kernel's streams are left alone"))

    async def run():
        app.main()

    with pytest.raises(SystemExit) as end:
        asyncio.run(run())
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.startswith("cfetch: an event loop is running here, as in a notebook; write `!cfetch")
    assert said.count("\n") == 1
