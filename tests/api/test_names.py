"""The public names: a list that only grows, with signatures that stay, and an import that costs nothing."""

import inspect
import json
import subprocess
import sys

import msgspec
import pytest

import cfetch
from cfetch.api.keywords import Usual
from cfetch.base.config.settings import GROWN, Settings

USUAL = (
    "headers=None, concurrency=None, per_host=None, limit_rate=None, retries=None, timeout=None, proxy=None, "
    "existing=None, max_failures=None, progress=False, settings=None, on_event=None, "
    "session=None"
)
SIGNATURES = {
    "download": f"source, *, to=None, {USUAL}",
    "download_async": f"source, *, to=None, {USUAL}",
    "get": f"urls, *, to=None, output=None, sha256=None, {USUAL}",
    "get_async": f"urls, *, to=None, output=None, sha256=None, {USUAL}",
    "read_manifest": "manifest, settings=None",
    "read_metrics": "path",
    "read_settings": "path",
    "stream": "source, *, ordered=True, memory='256M', unpacked=False, settings=None, on_event=None",
    "NotebookBar": "",
}
ERRORS = ("CfetchError", "ConfigError", "Held", "Incomplete", "LocalFault", "ManifestError", "UsageError")
EVENTS = ("EntryFinished", "Event", "Progress", "RunFinished", "RunStarted", "StragglerCancelled")
VALUES = ("Entry", "FileRecord", "Item", "Settings", "Stream", "Summary")
ENTRY_FIELDS = (
    "url", "path", "size", "offset", "length", "sha512", "sha3_512", "blake2b", "sha384", "sha3_384",
    "sha256", "sha3_256", "blake3", "sha224", "sha3_224", "sha1", "git_sha1", "md5", "crc32c", "crc32",
    "expires_at", "batch", "headers", "mirrors", "assemble",
)  # fmt: skip


def test_the_public_names_are_these():
    """Whoever takes one away breaks programs; a new one belongs into docs/python.md."""
    assert set(cfetch.__all__) == {"__version__", *SIGNATURES, *ERRORS, *EVENTS, *VALUES}
    homes = [name for names in cfetch._HOMES.values() for name in names]
    assert sorted(cfetch.__all__) == sorted(homes)
    assert set(cfetch.__all__) <= set(dir(cfetch))


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_stay(name):
    """Each function is typed and documented, and takes the same arguments."""
    value = getattr(cfetch, name)
    signature = inspect.signature(value)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    assert str(inspect.Signature(plain)) == f"({SIGNATURES[name]})"
    assert all(parameter.annotation is not parameter.empty for parameter in signature.parameters.values())
    assert value.__doc__


def test_the_fields_of_an_entry_are_the_keys_of_a_manifest():
    """A key that manifests learn is one of entries too."""
    from cfetch.manifest.rows import KEYS

    fields = tuple(field.name for field in msgspec.structs.fields(cfetch.Entry))
    assert fields == ENTRY_FIELDS
    assert set(fields) == set(KEYS)


def test_an_unknown_name_is_an_attribute_error():
    """It is so for misspelt names, and for tools that look whether there is one."""
    with pytest.raises(AttributeError, match="no attribute 'downlaod'"):
        cfetch.downlaod  # noqa: B018 - the access is the test
    assert not hasattr(cfetch, "__wrapped__")


def test_the_import_costs_nothing():
    """No other module of cfetch, and no library, before a name is used."""
    code = "import sys, cfetch, json; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-S", "-c", code], text=True))
    assert [name for name in loaded if name.startswith("cfetch")] == ["cfetch"]
    assert {"aiohttp", "asyncio", "msgspec", "typing"} & {*loaded} == set()


def test_a_concurrency_that_a_keyword_states_is_the_most():
    """As on the command line: also the default's number, unless the settings state a maximum."""
    assert Usual(concurrency=16).lay_over(None).most_at_once == 16
    assert Usual(concurrency=16).lay_over(Settings(max_concurrency=32)).most_at_once == 32
    assert Usual().lay_over(None).most_at_once == GROWN
