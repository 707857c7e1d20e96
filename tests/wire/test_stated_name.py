"""Names out of ``Content-Disposition``."""

import pytest
from multidict import CIMultiDict

from cfetch.wire.stated_name import read_stated_name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="a b.bin"', "a b.bin"),
        ("attachment; filename=a.bin", "a.bin"),
        ("inline; filename=\"x.bin\"; filename*=UTF-8''Z%C3%BCrich%20%E2%82%AC.bin", "Zürich €.bin"),
        ("attachment; filename*=iso-8859-1'en'%A3.bin", "£.bin"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename="C:\\\\dir\\\\a.bin"', "a.bin"),
        ('attachment; filename="a;b.bin"', "a;b.bin"),
        ('attachment; filename="caf\udce9.bin"', "café.bin"),
        ("attachment; filename*=rot-nothing''%41.bin", None),
        ("attachment; filename*=UTF-8''%FF.bin", None),
        ('attachment; filename="dir/"', None),
        ("attachment", None),
        ("form data; name=x", None),
    ],
)
def test_the_name_that_a_server_states(header, name):
    """The extended form wins, directories are dropped, and what is not valid is not stated."""
    assert read_stated_name(CIMultiDict({"content-disposition": header})) == name


def test_no_header_states_no_name():
    """Then the URL names the file."""
    assert read_stated_name(CIMultiDict()) is None
