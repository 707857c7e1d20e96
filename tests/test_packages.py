"""The packages: the sdist makes a wheel, which works where it is installed, away from the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import cfetch

ROOT = Path(__file__).parents[1]
BUILD = [sys.executable, "-m", "hatchling", "build"]


def call(*words, cwd, **variables):
    """What a command prints; it has to succeed."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("CFETCH_")}
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that the sdist makes; nothing else of the project is there."""
    folder = tmp_path_factory.mktemp("packages")
    call(*BUILD, "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    call(*BUILD, "-t", "wheel", "-d", folder, cwd=folder / sdist.name.removesuffix(".tar.gz"))
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_works_where_it_is_installed(wheel, tmp_path):
    """Command, version, presets and scenarios are its own."""
    place = tmp_path / "place"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    call(*pip, "--target", place, wheel, cwd=tmp_path)
    where = call(
        sys.executable, "-c", "import cfetch; print(cfetch.__file__)", cwd=tmp_path, PYTHONPATH=str(place)
    )
    assert where == f"{place / 'cfetch/__init__.py'}\n"
    command = place / "bin/cfetch"
    assert f"cfetch {cfetch.__version__} " in call(command, "--version", cwd=tmp_path, PYTHONPATH=str(place))
    shown = call(
        command, "download", "x", "--preset", "gcs", "--show-config", cwd=tmp_path, PYTHONPATH=str(place)
    )
    assert "preset gcs" in shown
    assert (place / "cfetch/plugins/lab/bench/scenarios/stragglers-quick.yaml").exists()


def test_the_wheel_has_types_schemas_and_no_tests(wheel):
    """Type checkers look for the mark; other programs read the schemas."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"cfetch/py.typed", "cfetch/schemas/summary.json"} <= set(names)
    assert [name for name in names if not name.startswith(("cfetch/", "cfetch-", "pyspark_cfetch/"))] == []


def test_all_installs_every_extra_but_those_for_developers():
    """An extra that ``all`` forgets is found by nobody; PySpark is left out, as platforms have their own."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(everything.removeprefix("cfetch[").removesuffix("]").split(",")) == extras.keys() - {
        "all", "dev", "docs", "spark-connect", "spark-local",
    }  # fmt: skip


def test_the_image_has_a_user_of_its_own_and_extras_that_exist():
    """No builder is needed to see that it does not run as root, and installs what there is."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    told = dict(line.split(" ", 1) for line in lines if line and line[0].isupper())
    assert (told["USER"], told["ENTRYPOINT"]) == ("1000", '["cfetch"]')
    (extras,) = [words for line in lines for words in re.findall(r"'/src\[(.*?)\]'", line)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()


def test_the_workflow_tests_every_python_that_the_package_names():
    """Whoever installs it with one of them gets what was tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text}
    (listed,) = re.findall(
        r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    )
    assert {word.strip(' "') for word in listed.split(",")} == named
    assert project["requires-python"] == f">={min(named, key=lambda text: int(text[2:]))}"
