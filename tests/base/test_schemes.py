"""The table of schemes is the only place that spells one, and other distributions are asked last."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cfetch
from cfetch.base.registry import import_object
from cfetch.base.schemes import SCHEMES, scheme_of
from cfetch.wire.transport import RunTransport
from tests.needs import case, is_plugin
from tests.syntax import list_nodes

HOUSE = Path(cfetch.__file__).parent
TABLE = HOUSE / "base" / "schemes.py"
WORDS = {"file"}  # also English words; with :// behind them they are found all the same
_NAMES = "|".join(sorted(SCHEMES, key=len, reverse=True))
# A scheme that no host follows: a start, a pattern, a part of an f-string; the rest are addresses.
_SPELLED = re.compile(rf"(?<![A-Za-z0-9+])(?:{_NAMES}|https\?)\)*://(?![A-Za-z0-9\\])|\[Hh\]\[Tt\]")
ALLOWED = {
    "plugins/follow/backends/bucket_events.py": "a key of Amazon's messages",
    "storage/buckets/s3_client.py": "the name of a service, for botocore",
}


def _list_texts(nodes):
    """Texts of a module that are no docstrings and no sentences for a person."""
    bodies = [body for node in nodes if isinstance(body := getattr(node, "body", None), list)]
    loose = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in loose:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if not re.search(r"\s", text):
                yield node.lineno, text


def test_no_other_module_spells_a_scheme():
    """A new scheme is one row: nothing else decides by a scheme's name."""
    names = SCHEMES.keys() - WORDS
    found = [
        f"{path.relative_to(HOUSE)}:{line}: {text!r}"
        for path in sorted(HOUSE.rglob("*.py"))
        if path != TABLE and str(path.relative_to(HOUSE)) not in ALLOWED
        for line, text in _list_texts(list_nodes(path))
        if text in names or _SPELLED.search(text)
    ]
    assert found == [], "ask cfetch/base/schemes.py for it, by a constant or a question to the table"


@pytest.mark.parametrize(
    "name",
    [case(name, needs_plugins=is_plugin(row.opener)) for name, row in SCHEMES.items() if row.opener],
)
def test_each_opener_is_there(name):
    """A row of the table leads to a function."""
    assert callable(import_object(SCHEMES[name].opener))


@pytest.mark.parametrize(
    ("text", "scheme"),
    [("HTTPS://h/a", "https"), ("s3://b/k://", "s3"), ("a/b://c", ""), ("http:/h", ""), ("", "")],
)
def test_the_scheme_of_a_text(text, scheme):
    """Only a text that begins with a name and :// has one; capitals do not matter."""
    assert scheme_of(text) == scheme


def test_other_distributions_are_asked_only_for_other_schemes():
    """To search the installed packages costs a plain URL nothing."""
    code = (
        "import sys; from cfetch.manifest.faults import UrlError\n"
        "from cfetch.manifest.urls import resolve_url\n"
        "for url in ('http://h/a', 's3://b/k'): resolve_url(url, lambda: None)\n"
        "for url in ('sftp://h/a', 'magnet:?xt=1', 'mailto:a'):\n"
        "    try: resolve_url(url, lambda: None)\n"
        "    except UrlError: pass\n"
        "print('cfetch.base.entry_points' in sys.modules)\n"
        "try: resolve_url('gopher://h/a', lambda: None)\n"
        "except UrlError as error: print(error)\n"
        "print('cfetch.base.entry_points' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, why, last = ran.stdout.splitlines()
    assert (first, last) == ("False", "True")
    assert why.startswith("its scheme is not http, https, s3")


async def test_a_scheme_that_is_not_had_fails_its_own_entry():
    """The transport refuses it in the words of the table, as a plan of an older version may hold it."""
    from cfetch.base.errors import Refused
    from cfetch.base.secret import SecretUrl
    from cfetch.wire.network import DIRECT

    transport = RunTransport(connect_timeout_s=1.0, network=DIRECT)
    with pytest.raises(Refused, match="scheme is sftp; scp and rsync"):
        await transport.open(SecretUrl("sftp://h/a"), {}, {}, fresh=False)
    await transport.close()
