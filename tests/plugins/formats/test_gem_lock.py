"""Lock files of Bundler: which server has a gem, which hash it has, and what is no gem of a server."""

import pytest

from tests.manifest.sample import SHA, H
from tests.plugins.formats.test_lists_outside import entries_of

LOCK = f"""GIT
  remote: {H}g.git
  revision: 0123
  specs:
    g (1.0)

GEM
  remote: {H}one/
  remote: https://other.example/
  specs:
    a (1.0)
      b (~> 2)
    b (2.1-x86_64-linux)

GEM
  remote: {H}two
  specs:
    c (3)

DEPENDENCIES
  a
  g!

CHECKSUMS
  a (1.0) sha256={SHA},whirl=00
  b (2.1-x86_64-linux)
  g (1.0)

BUNDLED WITH
   2.6.0
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_gem_comes_from_the_server_of_its_section(frozen, end):
    """The hashes stand behind all gems; what is not needed as a file is no row."""
    plan = frozen(LOCK.replace("\n", end), "Gemfile.lock")
    assert entries_of(plan) == [
        (f"{H}one/gems/a-1.0.gem", "a-1.0.gem", None, f"sha256:{SHA}"),
        (f"{H}one/gems/b-2.1-x86_64-linux.gem", "b-2.1-x86_64-linux.gem", None, None),
        (f"{H}two/gems/c-3.gem", "c-3.gem", None, None),
    ]
    assert list(plan.notes) == [
        "hashes of a kind that cfetch does not know, which are left out: 1",
        "gems without a hash: 2; `bundle lock --add-checksums` states them",
        "gems without a file of a server, which are left out: 1",
    ]


def test_further_servers_of_a_section_are_mirrors(frozen):
    """Old versions of Bundler do not say which of them has a gem."""
    plan = frozen(LOCK, "Gemfile.lock")
    mirrors = [[url.reveal() for url in entry.mirrors] for entry in plan.entries()]
    assert mirrors == [
        ["https://other.example/gems/a-1.0.gem"],
        ["https://other.example/gems/b-2.1-x86_64-linux.gem"],
        [],
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("    c (3)", "    c", 18, "its name and its version in parentheses"),
        (f"  remote: {H}two\n", "", 17, "it is not a gem of a server"),
        (f"  remote: {H}two\n", f"  remote: {H}two\n" * 102, 117, "more than 101 servers"),
        ("    c (3)", "<<<<<<< HEAD", 18, "a merge has left a conflict"),
    ],
)
def test_what_is_no_gem_is_a_fault(error_of, old, new, line, words):
    """A gem that is passed over would be missing at the next installation."""
    error = error_of(LOCK.replace(old, new), "Gemfile.lock")
    assert [(problem.line, words in problem.message) for problem in error.problems] == [(line, True)]
