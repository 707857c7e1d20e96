"""Texts that look like a list of another kind: recipes, configurations, programs, scripts and locks."""

from itertools import pairwise

import pytest

from cfetch.base.config.reading import ReadingOptions
from tests.manifest.sample import MD5, SHA, H
from tests.plugins.formats.test_links import read as read_links
from tests.plugins.formats.test_lists_outside import entries_of

BASE = "https://h.example/d/"
CONAN = f'sources:\n  "1.0":\n    url: "{H}a.tgz"\n    sha256: "{SHA}"\n  "1.1":\n    url: "{H}b.tgz"\n'
LOCK = f'version = 1\n[[p]]\nname = "a"\n[p.file]\nurl = "{H}a.whl"\nmd5 = "{MD5}"\n'


def message_of(error_of, text, name="x", **options):
    error = error_of(text, name, **options)
    assert error.total == 1
    return error.problems[0].message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conandata.yml", CONAN),
        ("a.spec", f"Name: a\nVersion: 1\nURL: {H}a\nSource0: {H}a.tgz\n"),
        ("DESCRIPTION", f"Package: a\nVersion: 1\nURL: {H}a\n"),
        ("a.toml", f'title = "a"\nurl = "{H}a"\n'),
        ("a.rb", f'class A < Formula\n  url "{H}a.tgz"\n  sha256 "{SHA}"\nend\n'),
        ("Makefile", f"PKG:=a\nURL:={H}a\n\ndefine Package/a\n  URL:={H}b\nendef\n"),
        ("a.nix", f'{{ pkgs, ... }}:\npkgs.fetchurl {{\n  url = "{H}a";\n}}\n'),
        ("a.ps1", f'[CmdletBinding()]\nparam()\nInvoke-WebRequest "{H}a"\n'),
        (".gitmodules", f'[submodule "a"]\n\tpath = a\n\turl = {H}a.git\n'),
        ("a.md", f"[![Tests]({H}badge.svg)]({H}a)\n\nSome words about it.\n"),
        ("a.json", f'// see {H}a\n{{"image": 1}}\n'),
        ("a.bib", f"%%{H}x\n@article{{a,\n  title = {{A}},\n  url = {{{H}a}}\n}}\n"),
        ("conanfile.txt", f"[requires]\npoco/1.9\nzlib/1@u/c\nb/2\n{H}a\n"),
        ("CMakeLists.txt", f"project(a VERSION 1)\nset(A b)\nset(B c)\nadd_library(a b.c)\n{H}a\n"),
        ("a.patch", f"{H}a\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@ x\n-\ta.b(c);\n+\ta.b(d);\n"),
    ],
)
def test_a_recipe_or_a_program_is_no_list_of_another_kind(error_of, name, text):
    """It was read as options of curl, as JSON, or as relative links once a base URL was stated."""
    assert "--from-format links reads" in message_of(error_of, text, name, base_url=BASE)


@pytest.mark.parametrize(
    "text",
    [
        "altgraph==0.17.5 \\\n    --hash=sha256:c87b \\\n    --hash=sha256:1a2b\n",
        "project(a VERSION 3.1)\nset(A b.c)\nadd_library(a a.c)\n",
        f"pip/__init__.py,sha256={MD5},357\npip/a.py,sha256={MD5},5\n",
    ],
)
def test_a_program_without_links_makes_no_files_of_its_lines(error_of, text):
    """A base URL would make a link of each."""
    assert message_of(error_of, text, "x.txt", base_url=BASE).startswith("it is text, not a list of links")


def test_names_with_blanks_and_equals_signs_stay_relative_links(frozen):
    """Partitions of tables are named so."""
    lines = ["y=2020/m=1/a b.parquet", "Some (Old) Album - 01, Title.flac", "it's/a.bin"]
    plan = frozen("".join(f"{line}\n" for line in lines), "x.txt", base_url=BASE)
    assert [path for _, path, *_ in entries_of(plan)] == lines


@pytest.mark.parametrize(
    ("name", "text", "expression", "hashes"),
    [
        ("conandata.yml", CONAN, "sources.*.{url: url, sha256: sha256}", [f"sha256:{SHA}", None]),
        ("a.lock", LOCK, "p[].file.{url: url, md5: md5}", [f"md5:{MD5}"]),
        (
            "pixi.lock",
            f"p:\n- conda: {H}a\n  size: 7\n  sha256: {SHA}\n- x: y\n",
            "p[?conda].{url: conda, size: size, sha256: sha256}",
            [f"sha256:{SHA}"],
        ),
        ("a.yaml", f"--- \n- {H}a\n- {H}b\n", "[]", [None, None]),
        ("a.yaml", f"r:\n- url: {H}a\n  md5: ~\n- url: {H}b\n", "r[].{url: url, md5: md5}", [None, None]),
    ],
)
def test_yaml_and_toml_are_read_by_an_expression_that_the_refusal_names(
    frozen, error_of, name, text, expression, hashes
):
    """They have the shapes of JSON."""
    assert f"--query '{expression}' reads them" in message_of(error_of, text, name)
    entries = entries_of(frozen(text, name, options=ReadingOptions(query=expression)))
    assert [entry[3] for entry in entries] == hashes
    assert all(entry[2] in (None, 7) for entry in entries)


def test_aliases_of_yaml_do_not_expand(error_of):
    """Nine lines could become a billion values."""
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefgh"))
    error = error_of(f"{bomb}u: {H}a\n", "a.yaml", options=ReadingOptions(query="u"))
    assert "it is not JSON" in error.problems[0].message


SCRIPT = f"""#!/bin/sh
if [ "$1" = old ]; then
  FASTA={H}old.fa
  INDEX={H}old.idx
else
  FASTA={H}new.fa
fi
BASE={H}data
LAST=$BASE/last.gz
wget $FASTA
curl -O "$LAST"
"""


def test_links_in_variables_that_no_command_takes_are_read_too(frozen):
    """A branch that assigns a variable again would hide all links before it."""
    links = {url for url, _ in read_links(frozen, SCRIPT, "get.sh")}
    assert links == {f"{H}{name}" for name in ("new.fa", "data/last.gz", "old.fa", "old.idx")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'<?xml version="1.0"?><x xmlns="{H}n"><y xmlns:z="{H}z"/></x>', "no list that cfetch knows"),
        (f"#!/bin/sh\n# see {H}a\nset -e\nmake\n", "it is text, not a list of links"),
        (f'get(f"https://{{host}}/a")\nget("{H}a")\nget(f"{H}{{name}}")\n', "it has 1 link within it"),
        ("<urlset>{{ range .Pages }}<url><loc>{{ .Link }}</loc></url></urlset>", "it is XML"),
    ],
)
def test_a_refusal_counts_the_links_that_its_way_reads(error_of, text, words):
    """Names of namespaces and links in comments would be an empty list."""
    message = message_of(error_of, text, "x")
    assert words in message
    assert ("--from-format links" in message) == ("1 link" in words)


def test_a_table_without_names_and_with_several_links_has_numbered_columns(frozen, error_of):
    """Its first row is an entry."""
    text = f"{H}a,{H}b,x\n{H}c,{H}d,y\n"
    assert "--url-column 1 or --url-column 2" in message_of(error_of, text, "x.csv")
    plan = frozen(text, "x.csv", options=ReadingOptions(url_column="2"))
    assert [entry[1] for entry in entries_of(plan)] == ["b", "d"]


def test_lines_of_json_without_urls_are_refused_with_an_expression(error_of):
    """Once, and not for each line."""
    error = error_of(f'{{"text": "x", "meta": {{"link": "{H}a.gz"}}}}\n' * 2, "x.jsonl")
    named = ["--query 'meta.{url: link}'" in problem.message for problem in error.problems]
    assert named == [True, False]


def test_hundreds_of_entries_of_one_name_are_no_sign_of_another_kind_of_list(clashes_of):
    """All rows have been read; each message names the way out."""
    clashes = clashes_of("".join(f"{H}{n}/a.bin\n" for n in range(600)), "x.txt")
    assert len(clashes) == 599
    assert all("--clash rename" in message for _, message in clashes)


def test_gentoos_manifest_states_sizes_and_hashes(frozen):
    """Of several hashes the strongest counts; one that cfetch does not know is left out."""
    digits = "cd" * 64
    text = f"DIST a.tgz 5 BLAKE2B {'ab' * 64} SHA512 {digits}\nDIST b.tgz 6 WHIRLPOOL {digits} MD5 {MD5}\n"
    assert entries_of(frozen(text, "Manifest", base_url=BASE)) == [
        (BASE + "a.tgz", "a.tgz", 5, f"sha512:{digits}"),
        (BASE + "b.tgz", "b.tgz", 6, f"md5:{MD5}"),
    ]


def test_columns_that_hold_links_are_found_where_the_first_row_has_gaps(error_of):
    """A table of runs has a link in the second column for few of them."""
    message = message_of(error_of, f"id,one,two\n1,{H}a,\n2,,{H}b\n", "x.csv")
    assert "links stand in 'one', 'two'" in message
