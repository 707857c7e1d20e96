"""The cookies of a file: which request gets them, and what is said of its odd lines."""

import pytest

from cfetch.base.errors import ConfigError
from cfetch.base.secret import SecretUrl
from cfetch.wire.cookies import read_cookies

CANARY = "CANARY0123456789"


def line(domain, below, path="/", secure="FALSE", ends="0", name="n", value=CANARY):
    return f"{domain}\t{below}\t{path}\t{secure}\t{ends}\t{name}\t{value}\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        (tmp_path / "c.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
        return read_cookies(str(tmp_path / "c.txt"))

    return read_text


@pytest.mark.parametrize(
    ("cookie", "url", "is_sent"),
    [
        (line("h.test", "FALSE"), "http://h.test/f", True),
        (line("h.test", "FALSE"), "http://H.test.:80/f", True),
        (line("h.test", "FALSE"), "http://cdn.h.test/f", False),
        (line(".h.test", "FALSE"), "http://cdn.h.test/f", False),
        (line(".h.test", "FALSE"), "http://h.test/f", True),
        (line("h.test", "TRUE"), "http://cdn.h.test/f", True),
        (line(".h.test", "true"), "http://h.test/f", True),
        (line(".h.test", "TRUE"), "http://oh.test/f", False),
        (line("nas", "FALSE"), "http://nas/f", True),
        (line("localhost", "FALSE"), "http://localhost:80/f", True),
        (line(".test", "TRUE"), "http://h.test/f", False),
        (line("0.0.1", "TRUE"), "http://127.0.0.1/f", False),
        (line("::1", "FALSE"), "http://[::1]:80/f", True),
        (line("h.test", "FALSE", "/in"), "http://h.test/in?x", True),
        (line("h.test", "FALSE", "/in/"), "http://h.test/in/f", True),
        (line("h.test", "FALSE", "/in"), "http://h.test/inn", False),
        (line("h.test", "FALSE", secure="TRUE"), "http://h.test/f", False),
        (line("h.test", "FALSE", secure="TRUE"), "https://h.test/f", True),
        (line("h.test", "FALSE", ends="9"), "http://h.test/f", False),
        (line("h.test", "FALSE", ends="4102444800.5"), "http://h.test", True),
    ],
)
def test_a_request_gets_the_cookies_of_its_own_host(read, cookie, url, is_sent):
    """RFC 6265, 5.4, decides it, and a host-only cookie goes to no subdomain."""
    assert (read(cookie).header_for(SecretUrl(url)) is not None) is is_sent


def test_longer_paths_come_first_and_the_last_line_of_a_cookie_counts(read):
    """An empty value is a value, and the line of a cookie that scripts do not see is no comment."""
    text = line("h.test", "FALSE", value="1") + line("h.test", "FALSE", "/d", name="long", value="2")
    text += (
        "# c\n\n#HttpOnly_" + line("h.test", "FALSE", name="empty", value="").removesuffix("\t\n") + "\r\n"
    )
    text += line("h.test", "FALSE", value="3")
    assert read(text).header_for(SecretUrl("http://h.test/d/f")) == "long=2; empty=; n=3"


@pytest.mark.parametrize(
    "odd",
    ["h.test\tFALSE\t/\tFALSE\t0\n", f"{CANARY}\n", line("h.test", "MAYBE"), line("h.test", "FALSE", "FALSE"),
     line("h.test", "FALSE", ends="soon"), line("h.test", "FALSE", value="a\x01"), line("", "FALSE"),
     line("h.test", "FALSE").replace("\t", " ")],
)  # fmt: skip
def test_an_odd_line_is_a_note_with_its_number(read, odd):
    """The other cookies are sent, no line is quoted, and a file of nothing else is refused."""
    cookies = read("# a comment\n" + line("h.test", "FALSE", value="1") + odd)
    assert cookies.header_for(SecretUrl("http://h.test/")) == "n=1"
    [note] = cookies.notes
    assert note.startswith("line 3 of the cookies in ")
    with pytest.raises(ConfigError, match="holds no cookie, see line 1") as caught:
        read(odd)
    assert CANARY not in note + str(caught.value)
