"""The files in configs/: each loads, says what it claims to say, and gives reasons."""

import re
from pathlib import Path

import pytest

from cfetch.base.config.document import load
from cfetch.base.config.layers import resolve
from cfetch.base.config.option_table import FORMULA, PRESETS
from cfetch.base.config.settings import KINDS, Settings

CONFIGS = Path(__file__).parents[3] / "configs"
SCENARIOS = Path(__file__).parents[3] / "benchmarks" / "scenarios"
CLOUDS = ["aws-s3", "azure-blob", "gcs"]


def test_the_shipped_files_are_these():
    """A new file gets its line here, and with it its tests."""
    assert sorted(path.stem for path in CONFIGS.iterdir()) == sorted(["default", *CLOUDS])


def test_default_states_exactly_the_defaults():
    """Every option that has a default stands in default.yaml with that value, every other as a comment."""
    path = CONFIGS / "default.yaml"
    given = load(path)
    assert {name for name in KINDS if getattr(Settings(), name) is not None} == given.keys()
    assert resolve(flags={}, env={}, file=path).settings == Settings()
    for name in KINDS.keys() - given.keys():
        assert f"\n# {name}: " in path.read_text()


def test_no_shipped_file_chooses_a_policy_without_naming_it():
    """An option that only the formula reads stands beside the policy that reads it."""
    options = {path: load(path) for path in CONFIGS.glob("*.yaml")}
    for path in SCENARIOS.rglob("*.yaml"):
        given = load(path).get("options", {})
        assert isinstance(given, dict)
        options[path] = given
    assert any(given.keys() & set(FORMULA) for path, given in options.items() if SCENARIOS in path.parents)
    assert [
        str(path) for path, given in options.items() if given.keys() & set(FORMULA) and "policy" not in given
    ] == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_cloud_file_changes_only_what_it_names(cloud):
    """A cloud's file is valid, and each of its values differs from the default: the rest would be noise."""
    path = CONFIGS / f"{cloud}.yaml"
    settings = resolve(flags={}, env={}, file=path).settings
    changed = {name for name in KINDS if getattr(settings, name) != getattr(Settings(), name)}
    assert changed == load(path).keys()
    assert cloud in PRESETS
    assert settings.policy == "adaptive"  # what is normal at a cloud is learned, not stated


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_preset_says_when_a_try_is_slow_at_its_cloud(cloud):
    """And where its vendor states it; a preset without such a value would be no preset for this program."""
    path = CONFIGS / f"{cloud}.yaml"
    assert load(path).keys() & {"first_byte_timeout", "min_rate", "stall_timeout"}
    assert re.search(r"(amazon|microsoft|google)\.com/", path.read_text())


@pytest.mark.parametrize("cloud", CLOUDS)
def test_cloud_file_tells_fact_from_judgement(cloud):
    """Every value's comment says what is documented and what is our own opinion."""
    paragraphs = (CONFIGS / f"{cloud}.yaml").read_text().split("\n\n")
    valued = [text for text in paragraphs if any(not line.startswith("#") for line in text.splitlines())]
    assert valued
    assert all("Documented: " in text or "Judgement: " in text for text in valued)
