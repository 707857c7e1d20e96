"""A canary wherever a person or a server may put a secret (T15); ``test_cases.py`` has the replies."""

import asyncio
import base64
import json
import stat
import sys
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.registry import has_plugins
from cfetch.base.secret import SecretText, SecretUrl
from tests.conditions.cases import BODY, CASES, Reply, head, moved, whole
from tests.conditions.runner import SECRETS, call, manifest_of, play, secrets_in
from tests.conditions.server import CaseServer

BY_NAME = {case.name: case for case in CASES}
GOOD = replace(BY_NAME["50-error-on-a-kept-connection"], name="0-good", replies=(whole(),))
GONE = BY_NAME["46-403"]


def clean(*said):
    """No canary in any of the texts."""
    return [text for text in said if "CANARY" in text] == []


@given(st.text(max_size=30), st.text(max_size=30))
def test_c105_a_url_shows_neither_query_nor_userinfo(query, user):
    """However they are written: the host and the last name are all that is seen of it."""
    url = SecretUrl(
        f"https://u{user}:CANARYPASS@h.test/a/CANARYDIR/b.bin?x=CANARYQUERY{query}&y=2#CANARYFRAGMENT"
    )
    assert clean(str(url), repr(url), f"{url}", f"{url!s:>5}", f"{[url]}")


def test_c105_what_a_url_shows():
    """Enough to recognise it by, and how many keys were left out."""
    assert str(SecretUrl("https://h.test:8443/a/b/c.bin?x=1&y=2")) == (
        "https://h.test:8443/…/c.bin?<redacted 2 keys>"
    )
    within = SecretUrl("https://h.test/gate/http:%2F%2Fu:CANARY@other.test%2Fc.png")
    assert str(within) == "https://h.test/…/…@other.test%2Fc.png"
    assert str(SecretUrl("https://h.test/c@2x.png")) == "https://h.test/c@2x.png"
    assert f"{SecretText('x')!r} {SecretText('x')}" == "<redacted> <redacted>"


@given(
    st.sampled_from(["http://", "HTTPS://", "http:/", ""]), st.text("aZ0.:/@?#[]%-_ \t\n\u00e9", max_size=9)
)
def test_the_host_of_a_url_is_what_the_standard_library_says(scheme, rest):
    """Also where the short way of telling it does not apply."""

    def host_of(url):
        return urlsplit(url).netloc.rpartition("@")[2].lower()

    def ask(function, url):
        try:
            return function(url)
        except ValueError:
            return "refused"

    url = scheme + rest
    assert ask(lambda text: SecretUrl(text).host(), url) == ask(host_of, url)


FLAGS = [
    "--json",
    "--log-format json",
    "--quiet",
    "--dry-run",
    "--dry-run --json",
    "--metrics m.json",
    "--state s",
]


@pytest.mark.parametrize("flags", [flags.split() for flags in FLAGS], ids=FLAGS)
@pytest.mark.parametrize("case", [GOOD, GONE], ids=lambda case: case.name)
async def test_c105_c108_in_every_way_of_output(case, flags, tmp_path, bare, spans, monkeypatch):
    """Streams, metrics wherever they are, spans, names and attributes; nothing of the plan is left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "to").mkdir()
    ran = await play(case, "hash", tmp_path / "to", *flags)
    assert ran.code == (0 if case is GOOD or "--dry-run" in flags else 1)
    assert clean(ran.said, "".join(span.to_json() for span in spans()))
    assert secrets_in(tmp_path) == ["to.json"]  # the manifest itself
    assert bool(spans()) is ("--dry-run" not in flags and has_plugins())


def test_c106_a_bug_tells_places_and_no_text(tmp_path, bare, monkeypatch):
    """An exception that nobody thought of may hold anything: exit 70, its type and where; in a group too."""
    manifest = tmp_path / "m.txt"
    manifest.write_text("http://127.0.0.1:1/a?sig=CANARYQUERY\n")
    bug = ValueError("CANARYBUG")
    for error in (bug, ExceptionGroup("CANARYGROUP", [bug])):

        def broken(*_args, error=error, **_more):
            raise error from KeyError("CANARYCAUSE")

        with monkeypatch.context() as patched:
            patched.setattr("cfetch.app.download.prepare", broken)
            ran = call("download", manifest, "--to", tmp_path / "to")
        assert ran.code == 70
        assert clean(ran.said)
        assert "ValueError" in ran.err
        assert ran.err.endswith("cfetch: report these lines, with what `cfetch doctor` prints\n")


@pytest.mark.parametrize("words", [("--show-config",), ("--show-config", "--json")], ids=" ".join)
def test_c107_configuration_shows_no_command_and_no_token(words, tmp_path, bare):
    """Neither a token of the environment nor the helper's command line, which may hold one."""
    ran = call(
        "download", *words, "--refresh-command", "sign --key CANARYKEY", "--statement-host", "https://h.test"
    )
    assert ran.code == 0
    assert "refresh_command" in ran.out
    assert clean(ran.said)


@pytest.mark.parametrize("verb", ["check", "verify", "report"])
async def test_c108_the_other_verbs(verb, tmp_path, bare):
    """Over the manifest of a run and over its metrics, for people and as JSON; a tree with damage, too."""
    to = tmp_path / "to"
    assert (await play(GOOD, "hash", to)).code == 0
    (metrics,) = (to / ".cfetch/metrics").iterdir()
    words = {
        "check": ("manifest", "check", tmp_path / "to.json"),
        "verify": ("verify", tmp_path / "to.json", "--to", to),
        "report": ("report", metrics),
    }[verb]
    assert [call(*words).code, call(*words, "--json").code] == [0, 0]
    (to / "d/a").write_bytes(BODY[::-1])
    assert clean(*(call(*words, *more).said for more in ((), ("--json",))))


@pytest.mark.parametrize(
    "row",
    [
        {"url": "http://u:CANARYPASS@h.test:0/a"},
        {"url": "http://u:CANARYPASS\\@h.test/a"},
        {"url": "http://h.test/a?sig=CANARYQUERY", "size": "CANARYSIZE"},
        {"url": "http://h.test/a b?sig=CANARYQUERY"},
        {"url": "http://h.test/a", "mirrors": ["http://u:CANARYPASS@h.test:0/"]},
        {"url": "http://h.test/a", "headers": {"X-Key": "CANARY\r\nKEY"}},
        {"url": "http://h.test/a", "CANARYKEY?sig=CANARYVALUE": 1},
    ],
)
@pytest.mark.parametrize("verb", [("download",), ("manifest", "check")], ids=" ".join)
def test_c85_c105_a_manifest_with_faults(row, verb, tmp_path, bare):
    """They are named by key and line; what stood there is not quoted."""
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps({"version": 1, "files": [row]}))
    ran = call(*verb, manifest, *(("--to", tmp_path / "to") if verb == ("download",) else ()))
    assert ran.code == 2
    assert clean(ran.said)


async def test_c59_secrets_of_mirrors_and_redirects(tmp_path, bare, spans):
    """Their queries are as secret as the entry's own, whatever comes of them."""
    gone = whole(b"", status="404 x")
    async with CaseServer(gone) as mirror, CaseServer(moved("/b?sig=CANARYSERVER"), gone) as server:
        document = json.loads(manifest_of(GOOD, server.url, "hash"))
        document["files"][0]["mirrors"] = [f"{mirror.url}a?sig=CANARYMIRROR"]
        manifest = tmp_path / "m.json"
        manifest.write_text(json.dumps(document))
        words = ["download", manifest, "--to", tmp_path / "to", "--max-attempts", "2"]
        ran = await asyncio.to_thread(call, *words)
    assert ran.code == 1
    assert "CANARYSERVER" in server.heads[1]
    assert not any(SECRETS["entry"] in one for one in mirror.heads)
    assert clean(ran.said, "".join(span.to_json() for span in spans()))
    assert secrets_in(tmp_path / "to") == []


@pytest.mark.parametrize(("prints", "code"), [
    ("{url}a?sig=CANARYFRESH", 0),
    ('{{"url": "{url}a?sig=CANARYFRESH", "headers": {{"X-Key": "CANARYFRESH"}}}}', 0),
    ("CANARYFRESH is no link", 1), ('{{"url": "CANARYFRESH"}}', 1), ("http://127.0.0.1:1/a b?CANARYFRESH", 1),
])  # fmt: skip
async def test_c109_what_a_refresh_command_is_told_and_tells(prints, code, tmp_path, bare, spans):
    """It gets the link on its standard input, never in its arguments; what it prints is shown to nobody."""
    helper = tmp_path / "sign.py"
    async with CaseServer(whole(b"", status="403 x"), whole()) as server:
        helper.write_text(
            "import json, pathlib, sys\n"
            "asked = json.load(sys.stdin)\n"
            f"pathlib.Path({str(tmp_path / 'asked')!r}).write_text(json.dumps([sys.argv, asked]))\n"
            f"print({prints.format(url=server.url)!r})\n"
        )
        manifest = tmp_path / "m.json"
        manifest.write_bytes(manifest_of(GOOD, server.url, "hash"))
        words = ["--refresh-command", f"{sys.executable} {helper}", "--max-attempts", "1"]
        ran = await asyncio.to_thread(call, "download", manifest, "--to", tmp_path / "to", *words)
    argv, asked = json.loads((tmp_path / "asked").read_text())
    assert argv == [str(helper)]
    assert SECRETS["query"] in asked["url"]
    assert ran.code == code
    assert clean(ran.said, "".join(span.to_json() for span in spans()))
    assert secrets_in(tmp_path / "to") == []


@pytest.mark.parametrize(
    ("reply", "code"), [(whole(), 0), (whole(b"", status="407 x"), 1), (GONE.replies[0], 1)]
)
async def test_c63_c105_logins_of_a_proxy_and_of_netrc(reply, code, tmp_path, bare, spans, monkeypatch):
    """They are sent to those whom they are for, and stand nowhere, not even encoded."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine h.test login me password CANARYNETRC\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    document = {"version": 1, "files": [{"url": "http://h.test/a?sig=CANARYQUERY", "size": len(BODY)}]}
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps(document))
    logins = [base64.b64encode(login).decode() for login in (b"u:CANARYPROXY", b"me:CANARYNETRC")]
    async with CaseServer(reply) as proxy:
        words = ["--proxy", proxy.url.replace("//", "//u:CANARYPROXY@"), "--netrc", "--max-attempts", "1"]
        ran = await asyncio.to_thread(call, "download", manifest, "--to", tmp_path / "to", *words)
    assert ran.code == code
    assert all(login in proxy.heads[0] for login in logins)
    traces = "".join(span.to_json() for span in spans())
    assert clean(ran.said, traces)
    assert not [login for login in logins if login in ran.said + traces]
    assert secrets_in(tmp_path / "to") == []


@pytest.mark.parametrize(
    "replies",
    [
        (whole(),),
        (whole(b"no, CANARYLOGIN", status="403 x"),),
        (whole(b"", status="500 x"),),
        (moved("http://me:CANARYTHEIRS@127.0.0.1:1/b"),),
    ],
    ids=["whole", "refused", "down", "away"],
)
@pytest.mark.parametrize("verb", ["download", "get"])
async def test_c105_a_login_in_a_url(verb, replies, tmp_path, bare, spans):
    """It goes to its server as Basic, to no server that this one names, and stands nowhere."""
    login = base64.b64encode(b"us@er:CANARYLOGIN").decode()
    async with CaseServer(*replies) as server:
        url = f"{server.url.replace('//', '//us%40er:CANARYLOGIN@')}a?sig=CANARYQUERY"
        manifest = tmp_path / "m.json"
        manifest.write_text(json.dumps({"version": 1, "files": [{"url": url}]}))
        words = [manifest, "--to", tmp_path / "to"] if verb == "download" else [url, "-o", tmp_path / "to/a"]
        ran = await asyncio.to_thread(call, verb, *words, "--max-attempts", "1", "--no-mitigation")
    assert ran.code == (0 if replies[0] == whole() else 1)
    assert f"Authorization: Basic {login}" in server.heads[0]
    assert "@" not in server.heads[0].partition("\r\n")[0]
    traces = "".join(span.to_json() for span in spans())
    assert clean(ran.said, traces)
    assert login not in ran.said + traces
    assert secrets_in(tmp_path / "to") == []


async def test_c109_c110_secrets_on_disk_while_a_run_is_under_way(tmp_path, bare):
    """Only the plan holds them: readable by its owner alone, in directories that are, and gone at the end."""
    to = tmp_path / "to"
    found: list[tuple[str, int, int]] = []

    class Looking(CaseServer):
        async def answer(self, writer, reply):
            for name in secrets_in(to, sealed=True):
                path = to / name
                found.append((name, path.stat().st_mode, path.parent.stat().st_mode))
            return await super().answer(writer, reply)

    half = Reply((head("200 OK", f"Content-Length: {len(BODY)}") + BODY[:1000],), "close")
    async with Looking(half, whole()) as server:
        manifest = tmp_path / "m.json"
        manifest.write_bytes(manifest_of(GOOD, server.url, "hash"))
        ran = await asyncio.to_thread(call, "download", manifest, "--to", to)
    assert ran.code == 0
    assert len(found) == 4  # one file with two names, at each of the two requests
    assert all(name.startswith(".cfetch/plans/") for name, _, _ in found)
    assert {(stat.S_IMODE(mode), stat.S_IMODE(above)) for _, mode, above in found} == {(0o600, 0o700)}
    assert secrets_in(to, sealed=True) == []
