"""Names in Content-Disposition: the known table of RFC 2231 and 6266, and what servers outside it write."""

import pytest

from cfetch.wire.disposition import read_name

# Facts that the tests of browsers, curl and aria2 share; a raw string stands for one byte a character.
NAMES = [
    ("inline", None), ('"inline"', None), ('inline; filename="foo.html"', "foo.html"),
    ('inline; filename="Not an attachment!"', "Not an attachment!"),
    (f'attachment; filename="{"0123456789" * 4}"', "0123456789" * 4),
    (r'attachment; filename="f\oo.html"', "foo.html"),
    (r'attachment; filename="\"quoting\" tested.html"', '"quoting" tested.html'),
    ("attachment; filename=\"Here's a semicolon;.html\"", "Here's a semicolon;.html"),
    (r'attachment; foo="\"\\";filename="foo.html"', "foo.html"),
    ('attachment; FILENAME="foo.html"', "foo.html"), ("attachment; filename=foo.html", "foo.html"),
    ("attachment; filename=foo,bar.html", "foo,bar.html"), ("attachment; filename=foo.html ;", "foo.html"),
    ("attachment; ;filename=foo", "foo"), ("attachment; filename=foo bar.html", "foo bar.html"),
    ('attachment; filename="foo-%41.html"', "foo-%41.html"), ('attachment; filename="50%.html"', "50%.html"),
    (r'attachment; filename="foo-%\41.html"', "foo-%41.html"), ('attachment; name="foo.html"', None),
    ('attachment; filename ="foo.html"', "foo.html"), ('attachment; filename= " a "', " a "),
    ('attachment; filename="foo.html"; filename="bar.html"', "foo.html"),
    ("attachment; filename=foo[1](2).html", "foo[1](2).html"), ("filename=foo.html", "foo.html"),
    ("x=y; filename=foo.html", "foo.html"), ("; filename=foo.html", "foo.html"),
    ("inline; attachment; filename=foo.html", "foo.html"),
    ('attachment; filename="foo-\udce4.html"', "foo-ä.html"),
    ('attachment; filename="foo-ä.html"', "foo-ä.html"),
    ("attachment; filename*=iso-8859-1''foo-%E4.html", "foo-ä.html"),
    ("attachment; filename*= UTF-8''foo-%c3%a4.html", "foo-ä.html"),
    ("attachment; filename *=UTF-8''foo-%c3%a4.html", None),
    ("attachment; filename*=UTF-8''foo-%c3%a4-%e2%82%ac.html", "foo-ä-€.html"),
    ("attachment; filename*=UTF-8''A-%2541.html", "A-%41.html"),
    ("attachment; filename*=\"UTF-8''foo-%c3%a4.html\"", "foo-ä.html"),
    ("attachment; filename=\"EURO.html\"; filename*=utf-8''%e2%82%ac.html", "€.html"),
    ("attachment; filename*=utf-8''%e2%82%ac.html; filename=\"EURO.html\"", "€.html"),
    ("attachment; filename*=utf-8''%e2%82; filename=plain.html", "plain.html"),
    ("attachment; filename*=nothing''a.html; filename=plain.html", "plain.html"),
    ('attachment; filename*0="foo."; filename*1="html"', "foo.html"),
    ("attachment; filename*0*=UTF-8''foo-%c3%a4; filename*1=\".html\"", "foo-ä.html"),
    ('attachment; filename*0="foo"; filename*2="bar"', "foo"),
    ('attachment; filename*1="foo."; filename*2="html"', None),
    ('attachment; filename=""', None), ('attachment; filename="', None),
    ("attachment; filename=dir/file", "file"), (r"attachment; filename=dir\file", "file"),
    (r'attachment; filename="dir\\file"', "file"), ('attachment; filename="/etc/passwd"', "passwd"),
    ('attachment; filename="%2E%2E%2Ffoo.html"', "%2E%2E%2Ffoo.html"),
    ("attachment; filename*=UTF-8''..%2F..%2Ffoo.html", "foo.html"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "name"), NAMES)
def test_a_known_header_gives_its_name(header, name):
    """What the standards allow is read so; what they do not allow, as curl and browsers read it."""
    assert read_name(header) == name
