"""Names in directory indexes that are not UTF-8: by header, by page, by guess, and what is asked for."""

import sys
from urllib.parse import quote

import pytest

from cfetch.plugins.formats.html_index import read_page
from cfetch.plugins.formats.page_names import read_text

PLACE = "https://h.example/pub/"


def read(names, encoding, *, header=None, meta="", escaped=True):
    def show(name):
        data = name.encode(encoding)
        link = quote(data).encode() if escaped else data
        return b'<a href="' + link + b'">' + data + b"</a>"

    head = f"<html><title>Index of /pub</title>{meta}".encode()
    page = head + b"\n".join(map(show, names)) + b"</html>"
    return read_page(read_text(page), PLACE, header)


def names_of(page):
    return [page.names.get(link, link) for _, link in page.files]


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize(
    ("names", "encoding", "header", "meta"),
    [
        (["a.txt", "café.txt"], "latin-1", "text/html;charset=ISO-8859-1", ""),
        (["“a”.txt", "Œuvre €.txt"], "cp1252", 'text/html; charset="iso-8859-1"', ""),
        (["表.txt", "ソ能.txt"], "cp932", "text/html; charset=Shift_JIS", ""),
        (["資料.txt"], "euc_jp", None, '<META HTTP-EQUIV=x CONTENT="text/html; charset=EUC-JP">'),
        (["表.txt"], "cp932", "text/html; charset=utf-8", "<meta charset=shift_jis>"),
        (["表.txt"], "cp932", "text/html; charset=rot13", "<meta charset=shift_jis>"),
    ],
)
def test_names_are_read_as_the_server_or_the_page_states(names, encoding, header, meta, escaped):
    """Raw bytes and percent-encoded ones ask for the same file; a broad encoding serves for a narrow one."""
    page = read(names, encoding, header=header, meta=meta, escaped=escaped)
    assert (names_of(page), page.doubts, page.notes) == (names, [], [])
    assert [link for _, link in page.files] == [quote(name.encode(encoding)) for name in names]


def test_a_name_in_utf_8_is_that_whatever_the_page_says():
    """Apache states ISO-8859-1 by default."""
    page = read(["café.txt"], "utf-8", header="text/html;charset=ISO-8859-1")
    assert (page.files, page.names) == ([(1, "caf%C3%A9.txt")], {})


@pytest.mark.parametrize(
    ("names", "encoding", "guess"),
    [
        (["Zürich.pdf", "café.txt"], "latin-1", "windows-1252"),
        (["日本語の資料.pdf", "データ一覧.csv"], "cp932", "Shift-JIS"),
        (["Данные.txt", "Отчет за год.doc"], "koi8_r", "KOI8-R"),
    ],
)
def test_names_in_no_stated_encoding_are_guessed_together(names, encoding, guess):
    """A statement that cannot be true of them does not count, and the user is told of the guess."""
    page = read(names, encoding, header="text/html; charset=utf-8")
    assert names_of(page) == names
    assert f"they are read as {guess}, which is a guess" in page.notes[0]


def test_western_names_need_no_library_for_guesses(monkeypatch):
    """Without it other names are read so too, which is told, and none is lost."""
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    assert names_of(read(["café.txt"], "latin-1")) == ["café.txt"]
    page = read(["Данные.txt"], "cp1251")
    assert (names_of(page), page.guess) == (["Äàííûå.txt"], "windows-1252")
