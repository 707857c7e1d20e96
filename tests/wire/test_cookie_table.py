"""A file of cookies as programs write them: fields that bend the form, by facts of aria2 and curl."""

import pytest

from cfetch.base.secret import SecretUrl
from cfetch.wire.cookies import read_cookies

TEXT = (
    "# name=this is a comment line;\n"
    "localhost\tFALSE\t/\tTRUE\t2147483647\tJSESSIONID\t123456789\n"
    "\n"
    "expired.test\tFALSE\t/\tFALSE\t1000\tuser\tme\n"
    "192.0.2.1\tTRUE\t/cgi-bin\tFALSE\t0\tpasswd\tsecret\n"
    "badformat\n"
    "something.test\tFALSE\t/\tFALSE\t4102444800.5\tTAX\t1000\n"
    ".example.org\tTRUE\t/\tFALSE\t2147483647.123\tnovalue\t\n"
    "#HttpOnly_.only.test\tTRUE\t/\tFALSE\t0\thidden\tx\n"
)
SENT = [
    ("https://localhost/", "JSESSIONID=123456789"), ("http://localhost/", None),
    ("http://expired.test/", None),
    ("http://192.0.2.1/cgi-bin/a", "passwd=secret"), ("http://192.0.2.1/cgi-binary", None),
    ("http://9.192.0.2.1.test/cgi-bin", None),
    ("http://something.test/", "TAX=1000"), ("http://www.something.test/", None),
    ("http://example.org/", "novalue="), ("http://www.example.org/", "novalue="),
    ("http://badexample.org/", None), ("http://a.only.test/", "hidden=x"),
]  # fmt: skip


@pytest.fixture
def cookies(tmp_path):
    """The cookies of the table."""
    (tmp_path / "cookies.txt").write_text(TEXT)
    return read_cookies(str(tmp_path / "cookies.txt"))


@pytest.mark.parametrize(("url", "header"), SENT)
def test_each_request_gets_the_cookies_that_are_its_own(cookies, url, header):
    """Times with fractions, empty values, addresses, comments and ends in the past are what they are."""
    assert cookies.header_for(SecretUrl(url)) == header


def test_the_line_that_is_no_cookie_is_noted(cookies):
    """By its number, with the rest of the file read."""
    assert [note[:7] for note in cookies.notes] == ["line 6 "]
