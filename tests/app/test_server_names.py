"""``--name-by header``: files are named by what their servers say, before anything is downloaded."""

import hashlib
import json
import re
import sqlite3

import pytest

from cfetch.app.get import prepare_get
from cfetch.app.manifest_build import build_from_list
from cfetch.base.config.reading import ReadingOptions
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, ManifestError, UsageError
from cfetch.run.manifest_reader import ManifestReader
from cfetch.storage.part_file import PartFile
from tests.app.site import NAMES
from tests.engine.drive import tree

BY_HEADER = {"name_by": "header"}


@pytest.fixture
def named(site, run):
    """The site states a name for each file but the last one."""
    site.dispositions = {name: f'attachment; filename="{n} é.bin"' for n, name in enumerate(NAMES[:-1])}
    return run


def by_name(site):
    return {f"{n} é.bin": site.files[name] for n, name in enumerate(NAMES[:-1])} | {
        "4.bin": site.files[NAMES[-1]]
    }


def test_files_are_named_by_their_servers_and_known_again(site, named, tmp_path):
    """One that states no name is named by its URL; a second run asks for nothing, and ``check`` for all."""
    assert set(named(**BY_HEADER).values()) == {"done"}
    assert tree(tmp_path / "to") == by_name(site)
    site.asked.clear()
    assert set(named(**BY_HEADER).values()) == {"skipped"}
    assert (named.in_place, site.asked) == (5, [])
    assert set(named(**BY_HEADER, existing="check").values()) == {"skipped"}
    assert {status for _, _, status in site.asked[5:]} == {304}
    site.dispositions[NAMES[0]] = "attachment; filename=renamed"
    assert "renamed" in named(**BY_HEADER, existing="check")
    assert named(**BY_HEADER)["renamed"] == "skipped"


@pytest.mark.parametrize("path", ["../0 é.bin", ".0 é.bin"])
def test_an_interrupted_run_keeps_the_names_it_has_got(site, named, tmp_path, path):
    """Of files that it has not brought too; a name that another program has written there is asked for."""
    del site.files[NAMES[1]]
    with pytest.raises(ManifestError, match="cannot be had: HTTP 404"):
        named(**BY_HEADER)
    site.files[NAMES[1]] = b"now"
    with sqlite3.connect(tmp_path / "to/.cfetch/names/stated.sqlite") as database:
        database.execute("UPDATE names SET path = ? WHERE path = '0 é.bin'", (path,))
    database.close()
    site.asked.clear()
    assert set(named(**BY_HEADER).values()) == {"done"}
    bodies = [(name, status) for _, name, status in site.asked]
    assert sorted(bodies) == sorted([(name, 200) for name in (*NAMES, NAMES[0], NAMES[1])])
    assert tree(tmp_path / "to") == by_name(site)


def test_a_damaged_memory_of_names_is_told_with_the_remedy(site, named, tmp_path):
    """It says which file to remove."""
    (tmp_path / "to/.cfetch/names").mkdir(parents=True)
    (tmp_path / "to/.cfetch/names/stated.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(LocalFault, match=r"stated.sqlite, which keeps the names .*: SQLITE_NOTADB; remove"):
        named(**BY_HEADER)


@pytest.mark.parametrize("existing", ["trust", "refetch"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_name_that_a_server_chose_replaces_no_file_of_the_user(site, named, tmp_path, existing, is_link):
    """That entry fails, and its message names both; the others come, and cfetch's own file is renewed."""
    (tmp_path / "to").mkdir()
    own = tmp_path / "to" / "0 é.bin"
    own.symlink_to("elsewhere") if is_link else own.write_text("mine")
    statuses = named(**BY_HEADER, existing=existing)
    assert statuses == {"0 é.bin": "failed"} | dict.fromkeys(by_name(site).keys() - {"0 é.bin"}, "done")
    assert own.is_symlink() if is_link else own.read_text() == "mine"
    asked_s = [name for _, name, status in site.asked if name == NAMES[0]]
    assert len(asked_s) == 1  # for the name alone
    site.files[NAMES[1]] = b"new"
    assert named(**BY_HEADER, existing="refetch")["1 é.bin"] == "done"
    assert (tmp_path / "to" / "1 é.bin").read_bytes() == b"new"


def test_a_file_that_comes_while_a_server_chosen_name_is_fetched_stays(site, named, tmp_path, monkeypatch):
    """It is looked for once more, just before the name is given."""
    finish = PartFile.finish

    def finish_late(part, *how):
        finish(part, *how)
        (tmp_path / "to" / "0 é.bin").write_text("mine")

    monkeypatch.setattr(PartFile, "finish", finish_late)
    assert named(**BY_HEADER)["0 é.bin"] == "failed"
    assert (tmp_path / "to" / "0 é.bin").read_text() == "mine"


def test_one_name_for_two_files_is_told_with_the_remedy(site, named):
    """The first comes, and the message of the other names both lines."""
    site.dispositions[NAMES[3]] = site.dispositions[NAMES[0]]
    named(**BY_HEADER)
    [failure] = named.summary.failures
    assert failure.kind == "clash"
    assert re.match(r"'0 é.bin' is stated twice .* lines 1 and 4; .* row or hash", failure.message)
    assert (named.to / "0 é.bin").read_bytes() == site.files[NAMES[0]]


def test_a_name_that_cannot_be_had_is_a_fault_of_its_row(site, named, tmp_path):
    """All of them are named at once; or such rows are skipped and listed, and the others come."""
    del site.files[NAMES[1]]
    site.dispositions[NAMES[2]] = 'attachment; filename=".."'
    site.dispositions[NAMES[4]] = 'attachment; filename="d/.bashrc"'
    with pytest.raises(ManifestError) as caught:
        named(**BY_HEADER)
    assert "cannot be had: HTTP 404" in str(caught.value)
    assert caught.value.total == 1
    named(**BY_HEADER, bad_rows="skip")
    assert tree(tmp_path / "to").keys() == {"0 é.bin", "2.bin", "3 é.bin", "4.bin"}
    rejected = [file.read_text() for file in (tmp_path / "to/.cfetch/rejected").iterdir()]
    assert [json.loads(line)["line"] for line in "".join(rejected).splitlines()] == [2]


def test_a_name_that_no_file_may_have_is_replaced_by_the_urls(site, named, tmp_path):
    """One server's odd name stops no other file; a note tells of each, and it hides nothing."""
    site.dispositions[NAMES[2]] = 'attachment; filename=".."'
    site.dispositions[NAMES[4]] = 'attachment; filename="d/.bashrc"'
    assert set(named(**BY_HEADER).values()) == {"done"}
    assert {"2.bin", "4.bin"} <= tree(tmp_path / "to").keys()
    lines: list[str] = []
    reader = ManifestReader(ReadingOptions(name_by="header"), emit_line=lines.append)
    build_from_list(str(named.urls), tmp_path / "m.json", reader, advance=lambda *_: None)
    notes = "\n".join(lines)
    assert "'..', and no server may choose a hidden file" in notes
    assert "'.bashrc', and no server may choose a hidden file" in notes


def test_what_an_earlier_run_has_left_is_found_by_its_name(site, named, tmp_path):
    """``--failed-from`` goes by paths, which are those that the servers state."""
    body, site.files[NAMES[0]] = site.files[NAMES[0]], b""
    site.content_type = "text/html"
    metrics = tmp_path / "m.jsonl"
    named(**BY_HEADER, metrics=str(metrics), max_attempts=1)
    assert named.exit_code == 1
    site.files[NAMES[0]], site.content_type = body, ""
    assert set(named(**BY_HEADER, failed_from=str(metrics)).values()) <= {"done"}
    assert tree(tmp_path / "to") == by_name(site)


def test_build_writes_the_names_for_commands_that_ask_nobody(site, named, tmp_path):
    """Such commands say so."""
    reader = ManifestReader(ReadingOptions(name_by="header"))
    with pytest.raises(UsageError, match="cfetch manifest build LIST --name-by header"):
        reader.freeze(str(named.urls)).__enter__()
    out = tmp_path / "m.json"
    build_from_list(str(named.urls), out, reader, advance=lambda *_: None)
    assert {file["path"] for file in json.loads(out.read_text())["files"]} == by_name(site).keys()


def test_get_names_its_file_by_the_server(site, tmp_path):
    """As ``curl -OJ`` does."""
    site.dispositions[NAMES[0]] = "attachment; filename=x.bin"
    settings = Settings(to=(str(tmp_path / "to"),), name_by="header")
    with prepare_get([f"{site.url}{NAMES[0]}"], settings, env={}) as prepared:
        prepared.run(lambda _: None)
    assert tree(tmp_path / "to") == {"x.bin": site.files[NAMES[0]]}
    with pytest.raises(UsageError, match="cannot be had: HTTP 404; name it with -o FILE"):
        prepare_get([f"{site.url}nothing"], settings, env={}).__enter__()


def test_a_file_with_a_hash_is_renewed_under_its_servers_name(site, tmp_path):
    """The record of its source proves that cfetch has put it there, though its hash proves the bytes."""
    site.dispositions[NAMES[0]] = "attachment; filename=x.bin"
    settings = Settings(to=(str(tmp_path / "to"),), name_by="header", existing="refetch")
    for body in (site.files[NAMES[0]], b"new"):
        site.files[NAMES[0]] = body
        url, sha256 = f"{site.url}{NAMES[0]}", hashlib.sha256(body).hexdigest()
        with prepare_get([url], settings, sha256=sha256, env={}) as prepared:
            prepared.run(lambda _: None)
        assert tree(tmp_path / "to") == {"x.bin": body}
