"""Directory indexes: which links of a page are entries, which are no part of the list, which are a doubt."""

import time

import pytest

from cfetch.plugins.formats.html_index import find_place, is_directory_index, read_page
from cfetch.plugins.formats.html_links import CUT

APACHE = """<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /pub/x</title></head><body><h1>Index of /pub/x</h1><table>
<tr><th><img src="/icons/blank.gif" alt="[ICO]"></th><th><a href="?C=N;O=D">Name</a></th>
<th><a href="?C=M;O=A">Last modified</a></th><th><a href="?C=S&amp;O=A">Size</a></th></tr>
<tr><td><img src="/icons/back.gif" alt="[PARENTDIR]"></td><td><a href="/pub/">Parent Directory</a></td></tr>
<tr><td><img src="/icons/folder.gif" alt="[DIR]"></td><td><a href="d/">d/</a></td></tr>
<tr><td><img src="/icons/unknown.gif" alt="[   ]"></td><td><a href="a%20b.bin">a b.bin</a></td></tr>
</table><address>Apache/2.4 Server at <a href="mailto:webmaster@h.example">h.example</a> Port 443</address>
</body></html>
"""
NGINX = """<html>\r\n<head><title>Index of /pub/x/</title></head>\r\n<body>\r\n<h1>Index of /pub/x/</h1>
<hr><pre>
<a href="../">../</a>\r\n<a href="d/">d/</a>  01-Jan-2026 00:00  -\r\n<a href="a%20b.bin">a b.bin</a>
</pre><hr></body>\r\n</html>\r\n"""
LIGHTTPD = """<!DOCTYPE html><html><head><title>Index of /pub/x/</title><style>a {}</style></head>
<body><h2>Index of /pub/x/</h2><div class="list"><table><tbody>
<tr class="d"><td class="n"><a href="../">..</a>/</td></tr>
<tr class="d"><td class="n"><a href="d/">d</a>/</td></tr>
<tr><td class="n"><a href="a%20b.bin">a b.bin</a></td></tr></tbody></table></div>
<div class="foot"><a href="https://www.lighttpd.net/">lighttpd</a>/1.4.76</div>
<script>// <!--
var x = "<a href='#' onclick='sort()'>" + "<\\/a>";
// --></script></body></html>
"""
PYTHON = """<!DOCTYPE HTML><html lang="en"><head><meta charset="utf-8">
<title>Directory listing for /pub/x/</title>
</head><body><h1>Directory listing for /pub/x/</h1><hr><ul><li><a href="d/">d/</a></li>
<li><a href="a%20b.bin">a b.bin</a></li></ul><hr></body></html>
"""
CADDY = """<!DOCTYPE html><html><head><title>Index of x</title>
<link rel="canonical" href="/pub/x/"></head><body>
<a href="/">h.example</a><a href="../../">pub</a><a href="./">x</a>
<a href="./?sort=name&order=desc&layout=grid">Name</a><a href="?layout=grid">Grid</a><a href="#top">top</a>
<a href="./d/">d</a><a href="./a%20b.bin">a b.bin</a>
<footer>Served with <a rel="noopener" href="https://caddyserver.com">Caddy</a></footer></body></html>
"""
ARCHIVE = """<html><head><title>Index of /pub/x</title></head><body><h1>Index of /pub/x</h1><pre>
<a href="?C=N;O=D">Name</a><a href="/pub">Parent Directory</a>   -
<a href="d/">d/</a> 2026-01-01 00:00 - <a href="a%20b.bin">a b.bin</a> 2026-01-01 00:00 1.0K
<a href="a%20b.bin?md5">md5</a> <a href="d/latest.bin">latest</a> <a href="a%20b.bin#info">about</a></pre>
<a href="https://www.hhs.gov/vulnerability-disclosure-policy/index.html">HHS</a>
<a href="/about/terms.html">Terms</a>
<a href="http://h.example:8080/">admin</a> <a href="../y/">next door</a></body></html>
"""


@pytest.mark.parametrize("text", [APACHE, NGINX, LIGHTTPD, PYTHON, CADDY, ARCHIVE])
def test_the_pages_of_ordinary_servers_are_without_doubt(text):
    """Links that sort, parents, icons, footers, and further links to an entry are no part of the list."""
    assert is_directory_index(text)
    page = read_page(text, "https://h.example/pub/x/")
    assert ([name for _, name in page.files], page.directories, page.doubts) == (["a%20b.bin"], ["d/"], [])


def read(links, place):
    """The names on a page with ``links``, and whether there is a doubt."""
    page = read_page(f"<html>{links}</html>", place)
    return [name for _, name in page.files] + page.directories, bool(page.doubts)


@pytest.mark.parametrize(
    ("place", "link", "names", "is_doubtful"),
    [
        ("http://h:1200", "http://h:12001", [], False),
        ("http://h:1200", "http://h:12001/x", [], False),
        ("http://h:1200", "http://h:1200.evil/x", [], True),
        ("http://h", "http://h.evil/x", [], False),
        ("http://h", "a", ["a"], False),
        ("http://h", "http://h/8", ["8"], False),
        ("http://h/d/", "HTTP://H:80/d/8", ["8"], False),
        ("http://h/d/", "https://h/d/8", [], True),
        ("http://h/", "https://h/8", [], True),
        ("http://h/", "http://www.h./8", [], True),
        ("http://127.0.0.1:99/", "http://localhost:99/8", [], True),
        ("http://127.0.0.1:99/", "http://[::1]:98/8", [], False),
        ("http://h/", "https://nginx.org/en/", [], False),
        ("http://h/%C3%BC/", "/ü/a", ["a"], False),
        ("http://h/d%2Fe/", "/d/e/a", [], False),
        ("http://h/d//e/", "a", ["a"], False),
        ("http://h/d/", "x/../a", ["a"], False),
        ("http://h/d/", "%2e%2e/d/a", ["a"], False),
        ("http://h/d/", "%2e%2e/", [], False),
        ("http://h/d/", "/d", [], False),
        ("http://h/d/", "/d2/a", [], False),
        ("http://h/d/", "e/a", [], True),
        ("http://h/d/", "?P=1", [], True),
        ("http://h/d/", "http:///d/a", [], True),
        ("http://h/d/", "///d/a", [], True),
        ("http://h/d/", "?continuation-token=x", [], True),
        ("s3://bucket/d/", "a b", ["a%20b"], False),
        (None, "a:b", [], True),
        (None, "./a:b", ["./a:b"], False),
    ],
)
def test_what_a_link_means_is_decided_by_its_address(place, link, names, is_doubtful):
    """By scheme, host, port and path segments, in whatever encoding; never by how its text begins."""
    assert read(f'<a href="{link}">x</a>', place and find_place(place)) == (names, is_doubtful)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("<![if !IE]><a href=1>x</a><![endif]>", ["1"]),
        ("<![x y]><a href=1>x</a>", ["1"]),
        ("<base href=/d/><base href=/e/><a href=1>x</a>", ["1"]),
        ("<a href=1 href=2>x</a>", ["1"]),
        ("<a href='1&#x20;'>x</a><script>'<a href=2>x</a>'</script><!-- <a href=3> -->", ["1"]),
    ],
)
def test_tags_are_read_as_by_a_browser(text, names):
    """The first of several counts, and comments and scripts are no links."""
    assert read(text, "http://h/d/") == (names, False)


@pytest.mark.parametrize("text", ["<a a", "<!--", "<a b='", "<script></", "&"])
def test_a_hostile_page_takes_time_in_proportion_to_its_size(text):
    """Also one that never ends a tag."""
    began_s = time.process_time()
    assert read_page(text * ((1 << 19) // len(text)), "http://h/d/").doubts
    assert time.process_time() - began_s < 10


GO = (
    '<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n<a href="a">a</a>\n</pre>\n'
)


def test_the_page_of_gos_file_server_ends_with_its_list():
    """It has no <html>; a page that has one does not end there, and what comes behind the list is seen."""
    assert is_directory_index(GO)
    assert read_page(GO, "http://h/d/").doubts == []
    for text in (GO.replace("</pre>", ""), f"<html>{GO}", f'{GO}<a href="b">b</a>'):
        assert read_page(text, "http://h/d/").doubts == [CUT], text


def test_the_list_of_h5ai_is_an_index():
    """Its links are paths from the root."""
    head = "<!DOCTYPE html><html><head><title>index - powered by h5ai v0.30.0 (https://larsjung.de/h5ai/)</title>"
    page = read_page(f'{head}</head><body><a href="/d/a.zip">a.zip</a></body></html>', "http://h/d/")
    assert (is_directory_index(head), [name for _, name in page.files], page.doubts) == (True, ["a.zip"], [])


def test_a_page_whose_links_all_lead_elsewhere_is_refused_with_the_way_out(error_of):
    """Such as by its <base href>; an empty directory is no such page."""
    text = '<html><head><title>Index of /d/</title><base href="//other/d/"></head><a href="a">a</a></html>'
    assert "<base href> names another server; give the page of that directory" in str(
        error_of(text, "m.html", base_url="http://h/d/")
    )


@pytest.mark.parametrize(
    ("place", "base", "moved_to"),
    [
        ("http://h/d/", "/files/", "http://h/files/"),
        ("http://h/d/", "http://H:80/files/index.html", "http://H:80/files/"),
        ("http://h/d/", "/d/sub/", "http://h/d/sub/"),
        ("http://h/d/", "https://h/files/", None),
        ("http://h/d/", "http://h:81/files/", None),
        ("http://h/d/", "http://h:x/files/", None),
        ("http://h/d/e/", "/d/", None),
        ("http://h/d/", "/", None),
        (None, "/files/", None),
    ],
)
def test_a_base_on_the_same_server_says_which_directory_the_page_is_of(place, base, moved_to):
    """Not one above the page: links of a site's frame would be files of each empty directory."""
    page = read_page(f'<html><base href="{base}"><a href="a">a</a><a href="b/">b/</a></html>', place)
    assert page.moved_to == moved_to
    moved = [name for _, name in page.files], page.directories, page.doubts
    assert moved == (["a"], ["b/"], []) if moved_to else page.is_empty


def test_a_page_with_files_of_its_own_keeps_its_directory():
    """A further link that its base leads elsewhere stays a doubt."""
    page = read_page("<html><base href=/e/><a href=/d/1>1</a><a href=2>2</a></html>", "http://h/d/")
    assert ([name for _, name in page.files], page.moved_to, len(page.doubts)) == (["1"], None, 1)


def test_entries_of_another_directory_are_asked_for_there(frozen):
    """Their names stay as the page states them."""
    text = '<html><head><title>Index of /d/</title><base href="/files/"></head><a href="a">a</a></html>'
    [entry] = frozen(text, "m.html", base_url="http://h/d/").entries()
    assert (entry.url.value, entry.path) == ("http://h/files/a", "a")
