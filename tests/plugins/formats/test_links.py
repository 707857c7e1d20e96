"""Any text with links, by ``--from-format links``; without it, a refusal that counts them."""

import pytest

from cfetch.base.config.reading import ReadingOptions
from tests.manifest.sample import MD5, SHA, H
from tests.plugins.formats.test_lists_outside import entries_of

SCRIPT = f"""#!/bin/bash
# see {H}docs
set -e
BASE={H}data
wget -c {H}a.bin -O data/a.bin
wget -qO- {H}x.tar.gz | tar x
curl -L -o c.bin {H}c.bin && curl -O "$BASE/d.bin?x=1&y=2"
curl {H}e > sub/e.bin
wget -P dir --header="X-Key: k" \\
  {H}f.bin
aria2c -d z -o g.bin {H}g
echo "see {H}h.bin"
"""


def read(frozen, text, name="x.txt", **options):
    plan = frozen(text, name, options=ReadingOptions(from_format="links"), **options)
    return [entry[:2] for entry in entries_of(plan)]


def test_the_commands_of_a_script_name_the_files(frozen):
    """Comments are passed over, lines are joined, and variables that the script sets are replaced."""
    assert read(frozen, SCRIPT) == [
        (H + "a.bin", "data/a.bin"),
        (H + "x.tar.gz", "x.tar.gz"),
        (H + "c.bin", "c.bin"),
        (H + "data/d.bin?x=1&y=2", "d.bin"),
        (H + "e", "sub/e.bin"),
        (H + "f.bin", "dir/f.bin"),
        (H + "g", "z/g.bin"),
        (H + "h.bin", "h.bin"),
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"wget {H}$NAME.gz", "a variable or a pattern"),
        (f"wget {H}a{{1..9}}.gz", "a variable or a pattern"),
        (f"curl -d a=b {H}a", "-d: cfetch has no such option"),
        (f"curl -sX POST {H}a", "-X: cfetch has no such option"),
    ],
)
def test_a_command_whose_request_is_not_known_is_a_fault(error_of, command, words):
    """Another file than the command's would be downloaded."""
    options = ReadingOptions(from_format="links")
    assert words in error_of(f"{command}\n", "x.sh", options=options).problems[0].message


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"\"{H}a\"\n'{H}b'\n", ["a", "b"]),
        (f"- {H}a\n* {H}b.\n", ["a", "b"]),
        (f"See [a]({H}a) and <{H}b>, or ({H}c_(1)).\n", ["a", "b", "c_(1)"]),
        (f"{H}a\n  out=x/y.bin\n", ["x/y.bin"]),
        (
            f'<html>\n<a href="a.bin">x</a> <img src="{H}b.png?x=1&amp;y=2"> <a href="#top">t</a>\n',
            ["a.bin", "b.png"],
        ),
        (
            f'<?xml version="1.0"?>\n<x xmlns="http://n.example/1"><u url="{H}a"/><v>{H}b</v></x>\n',
            ["a", "b"],
        ),
        (f'<opml><outline type="rss" xmlUrl="{H}a"/></opml>\n', ["a"]),
    ],
)
def test_links_are_found_in_any_text(frozen, text, names):
    """Marks around a link are no part of it; a relative one counts in HTML, a namespace does not."""
    assert [path for _, path in read(frozen, text, base_url=H)] == names


@pytest.mark.parametrize(
    "text",
    [
        f'"{H}a"\n"{H}b"\n',
        f"- {H}a\n- {H}b\n",
        f"set -e\nwget {H}a\nwget {H}b\n",
        f'a = "{H}a"\nb = "{H}b"\n',
    ],
)
def test_a_text_with_links_is_refused_with_their_number_and_the_way(error_of, text):
    """The advice to state a base URL would make files of its lines."""
    message = error_of(text, "x.txt", base_url=H).problems[0].message
    assert "it has 2 links within it, which --from-format links reads" in message


def test_an_xml_document_that_is_no_list_is_refused_as_such(error_of):
    """Its root is not that of Metalink, and nobody said that it was."""
    message = error_of(f'<?xml version="1.0"?><x><u url="{H}a"/></x>', "x.xml").problems[0].message
    assert message.startswith("it is XML, and no list that cfetch knows; it has 1 link within it")


def test_a_list_that_is_none_is_given_up_after_some_hundred_faults_of_one_sort(error_of):
    """A fault for each of a million lines takes half a minute, and nobody reads it."""
    error = error_of("".join(f"mailto:a{n}@b.c\n" for n in range(5000)), "x.txt")
    assert error.total == 501
    assert (
        "it may be a list of another kind"
        in [problem.message for problem in error.problems if problem.line == 500][-1]
    )


def test_rows_that_are_to_be_skipped_are_not_given_up(frozen):
    """However many they are."""
    text = "".join(f"a{n}: b\n" for n in range(2000)) + f"{H}a\n"
    assert len(frozen(text, "x.txt", options=ReadingOptions(from_format="urls", bad_rows="skip"))) == 1


def test_a_row_that_names_the_columns_again_is_no_entry(frozen):
    """Tables of several requests are joined so."""
    plan = frozen(f"id,url\n1,{H}a\nid,url\n2,{H}b\n", "x.csv")
    assert [entry[1] for entry in entries_of(plan)] == ["a", "b"]
    assert "name the columns again, as joined tables have them: 1" in plan.notes[-1]


def test_words_are_no_paths(error_of):
    """Whatever the ending of their file says, a base URL would make names of them."""
    [problem] = error_of("some words\nand more\n", "x.txt", base_url=H).problems
    assert "it is text, not a list of links" in problem.message


def test_the_hashes_of_requirements_are_those_of_their_links(frozen):
    """Of two hashes of one sort pip takes either, so neither proves a file; a note counts them."""
    text = (
        f"{H}a.tgz --hash=sha256:{SHA}\nb @ {H}b.tgz \\\n    --hash=md5:{MD5} \\\n    --hash=sha256:{SHA}\n"
    )
    text += f"{H}c.tgz \\\n  --hash=sha256:{SHA} --hash=sha256:{'ff' * 32}\n"
    plan = frozen(text, "requirements.txt", options=ReadingOptions(from_format="links"))
    assert [entry[3] for entry in entries_of(plan)] == [f"sha256:{SHA}", f"sha256:{SHA}", None]
    assert "hashes that are not surely those of one link, and that are left out: 2" in plan.notes
