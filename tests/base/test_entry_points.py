"""Plug-ins of other distributions are searched for fast, and none is overlooked."""

import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from importlib.metadata import Distribution

import pytest

from cfetch.base import entry_points
from cfetch.base.entry_points import list_points

FILES = {
    "odd-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: odd\nVersion: 1\n",
    "odd-1.dist-info/entry_points.txt": "[console_scripts]\nodd = odd:main\n[cfetch.verbs]\nodd = odd:verb\n",
}

IN_AN_EGG = ("odd-1.dist-info", "EGG-INFO")


class Listing:
    """A finder that knows one distribution, which stands in no directory of the path."""

    def __init__(self, place):
        self.place = place

    def find_spec(self, name, path=None, target=None):
        return None

    def find_distributions(self, context):
        return [Distribution.at(self.place / "odd-1.dist-info")]


@pytest.fixture(params=["directory", "egg", "archive", "finder"])
def installed(request, tmp_path, monkeypatch):
    """A distribution with a verb, as the parameter says where."""
    place = tmp_path / "place"
    for name, text in FILES.items():
        path = place / (name.replace(*IN_AN_EGG) if request.param == "egg" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if request.param == "egg":
        place = place.rename(tmp_path / "odd-1-py3.egg")
    if request.param == "archive":
        with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
        place = tmp_path / "odd.zip"
    if request.param == "finder":
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Listing(place)])
    else:
        monkeypatch.syspath_prepend(place)
    yield request.param
    entry_points._has_any.cache_clear()


def test_a_plug_in_is_known_wherever_its_distribution_stands(installed):
    """In a directory, as an egg, in an archive, by a finder of its own."""
    entry_points._has_any.cache_clear()
    assert "odd" in [point.name for point in list_points("verbs")], installed


def test_what_others_install_without_plug_ins_is_not_read(tmp_path, monkeypatch):
    """The help of cfetch begins without the module that reads all distributions."""
    (tmp_path / "odd-1.dist-info").mkdir()
    (tmp_path / "odd-1.dist-info/entry_points.txt").write_text("[console_scripts]\nodd = odd:main\n")
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    assert not entry_points._has_any.__wrapped__(str(tmp_path), "")


def test_help_begins_without_the_module_that_reads_distributions():
    """Unless a distribution has a plug-in, or a finder of its own."""
    code = (
        "import sys; from cfetch.base.registry import list_names\n"
        "from importlib.machinery import PathFinder\n"
        "sys.meta_path[:] = [each for each in sys.meta_path if not hasattr(each, 'find_distributions')"
        " or each is PathFinder]\n"
        "names = list_names('verbs'); print('importlib.metadata' in sys.modules, names[0])"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False download\n"
