"""Formats keep the suite that is for everybody's."""

from typing import ClassVar

import pytest

from cfetch.testing.formats import FormatContract

HASH = "ab" * 32


class TestChecksumList(FormatContract):
    name = "sha256sum"
    samples: ClassVar = {f"{HASH}  a.bin\n{HASH} *d/b.bin\n".encode(): ["a.bin", "d/b.bin"]}
    foreign: ClassVar = {f"a.bin sha256:{HASH}\n".encode(): "pooch"}


class TestBagit(FormatContract):
    name = "bagit"
    samples: ClassVar = {
        b"https://h.test/x 10 data/a.bin\nhttps://h.test/y - data/b.bin\n": ["data/a.bin", "data/b.bin"]
    }


class TestAnnex(FormatContract):
    name = "annex"
    is_told = False  # its lines may be URLs with blanks too
    samples: ClassVar = {b"https://h.test/x a.bin\n": ["a.bin"]}


class TestAptUris(FormatContract):
    name = "apt-uris"
    samples: ClassVar = {
        f"'http://deb.test/pool/b_1%3a2_all.deb' b_1%3a2_all.deb 10 SHA256:{HASH}\n"
        "'http://deb.test/pool/c.deb' c.deb 7 \n".encode(): ["b_1:2_all.deb", "c.deb"]
    }
    foreign: ClassVar = {b"'http://deb.test/c.deb'\n": "within"}


class TestGemLock(FormatContract):
    name = "gem-lock"
    samples: ClassVar = {
        b"GEM\n  remote: https://g.test/\n  specs:\n    a (1.0)\n      b (~> 2)\n    b (2.1-java)\n": [
            "a-1.0.gem",
            "b-2.1-java.gem",
        ],
        f"GIT\n  remote: https://h.test/g.git\n  specs:\n    g (1)\n\nGEM\n  remote: https://g.test/\n"
        f"  specs:\n    a (1.0)\n\nCHECKSUMS\n  a (1.0) sha256={HASH}\n".encode(): ["a-1.0.gem"],
    }
    foreign: ClassVar = {b"GEM\nhttps://h.test/a.gem\n": "urls", b"remote: https://gems.test/\n": "within"}


def test_the_suite_refuses_a_format_that_is_taken_for_another():
    """Else it would tell nobody anything."""

    class Suite(TestBagit):
        name = "aria2"

    with pytest.raises(AssertionError):
        Suite().test_samples_are_recognised()
