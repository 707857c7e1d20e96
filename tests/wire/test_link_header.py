"""Where a list that comes in pages goes on."""

import pytest

from cfetch.base.errors import Refused
from cfetch.wire.link_header import find_next_link


@pytest.mark.parametrize("value", [
    '<n>; rel="next"', "<n>; rel=next", "<n>;REL=NEXT", '<n>; rel="last next"', "<n>; rel='next'",
    '<n>; title="a,b"; rel="next"', r'<n>; title="a\",;<x>; rel=prev"; rel=next',
    '<a>; rel=prev, <n> ; rel = "next"',    "<a>; rel=prev,, <n>;; crossorigin; rel=next;",
    "<n>; title*=UTF-8''n%e4chstes; rel=\"next\"",
])  # fmt: skip
def test_a_link_to_the_next_page_in_all_its_legal_forms(value):
    """Case, quotes, other parameters and other links do not hide it."""
    assert find_next_link([value]) == "n"


def test_no_next_page():
    """A word within another parameter or relation is none; several header lines are one list."""
    assert find_next_link(['<a>; rel="prev"; title="rel=next"', "<b>; rel=nextish", ""]) is None
    assert find_next_link(["<a>; rel=prev", "<b>; rel=next"]) == "b"
    assert find_next_link([]) is None


@pytest.mark.parametrize(
    "value", ["n; rel=next", "<n; rel=next", '<n>; rel="next', "<n>; rel=last next", "<n> rel=next"]
)
def test_what_cannot_be_read_is_not_the_end(value):
    """Nobody can tell whether the list goes on."""
    with pytest.raises(Refused, match="Link cannot be read"):
        find_next_link([value])
