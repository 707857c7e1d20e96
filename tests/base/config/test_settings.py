"""The table of options: every number has a range whose ends are in or out as stated, and errors say so."""

import math
from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.config.settings_page import make_page
from cfetch.base.config.settings_words import SettingsWords
from cfetch.base.config.wire import NetworkOptions, RateLimits
from cfetch.base.errors import ConfigError
from cfetch.cli.options import PANELS

NUMERIC = {
    # key: (values at and just inside the ends, values just outside)
    "concurrency": ((1, 1024), (0, 1025)),
    "processes": ((1, 64), (0, 65)),
    "per_host": ((1, 1024), (0, 1025)),
    "rate": ((0.0001, 100_000), (0.00009, 100_001)),
    "limit_rate": ((1024, 1 << 40), (1023, (1 << 40) + 1)),
    "limit_rate_per_host": ((1024, 1 << 40), (1023, (1 << 40) + 1)),
    "batch_share": ((0.0000001, 1), (0, 1.0000001)),
    "keep_free": ((0, 1 << 60), (-1, (1 << 60) + 1)),
    "write_timeout": ((1, 3600), (0.999, 3600.001)),
    "placement_deadline": ((1, 86_400), (0.999, 86_401)),
    "multiplier": ((1.0000001, 1000), (1, 1000.001)),
    "quantile": ((0.0000001, 1), (0, 1.0000001)),
    "percentile": ((1, 99), (0, 100)),
    "padding": ((0, 3600), (-0.001, 3600.001)),
    "max_stragglers": ((0, 1_000_000), (-1, 1_000_001)),
    "check_interval": ((0.05, 2), (0.049, 2.001)),
    "segments": ((1, 1024), (0, 1025)),
    "min_rate": ((1, 1 << 40), (0, (1 << 40) + 1)),
    "deadline": ((1, 31 * 86_400), (0.999, 31 * 86_400 + 1)),
    "max_concurrency": ((1, 1024), (0, 1025)),
    "keep_metrics": ((1, 1_000_000), (0, 1_000_001)),
    "max_attempts": ((1, 100), (0, 101)),
    "max_failures": ((0, 1_000_000_000), (-1, 1_000_000_001)),
    "retry_budget": ((0, 86_400), (-1, 86_401)),
    "max_file_size": ((1, 1 << 50), (0, (1 << 50) + 1)),
    "memory": ((1 << 20, 1 << 50), ((1 << 20) - 1, (1 << 50) + 1)),
    "max_head_size": ((16 << 10, 64 << 20), ((16 << 10) - 1, (64 << 20) + 1)),
    "stall_timeout": ((0.05, 3600), (0.049, 3601)),
    "first_byte_timeout": ((0.05, 86_400), (0.049, 86_401)),
    "connect_timeout": ((0.05, 600), (0.049, 601)),
    "heartbeat_interval": ((1, 3600), (0.999, 3600.001)),
    "heartbeat_misses": ((0, 100), (-1, 101)),
}
CASES = [(key, value) for key, (good, _) in NUMERIC.items() for value in good]
BAD = [(key, value) for key, (_, bad) in NUMERIC.items() for value in bad]


def test_every_number_of_the_table_is_tested_here():
    """A new numeric option cannot be added without its range being stated above."""
    assert {name for name, kind in KINDS.items() if kind.low is not None} == NUMERIC.keys()


@pytest.mark.parametrize(("key", "value"), CASES)
def test_values_at_the_ends_of_the_range_are_taken(key, value):
    """The ends of a range belong to it unless it says `above`."""
    options: dict[str, Any] = {key: value}
    if key == "max_concurrency":
        options["concurrency"] = 1  # it may not be more
    assert getattr(Settings(**options), key) == value


def test_a_search_upwards_begins_at_the_concurrency():
    """Less than it would be no search; the message names both."""
    assert Settings(concurrency=16, max_concurrency=16).max_concurrency == 16
    with pytest.raises(ConfigError, match=r"max_concurrency is 15 but must be at least concurrency.* is 16"):
        Settings(concurrency=16, max_concurrency=15)


@pytest.mark.parametrize(
    ("key", "value"), [*BAD, *((key, odd) for key in NUMERIC for odd in (math.nan, math.inf, -math.inf))]
)
def test_values_outside_are_refused_by_key_and_range(key, value):
    """Just outside, infinite or not a number: the error names the key, the value and the range."""
    with pytest.raises(ConfigError) as caught:
        Settings(**{key: value})
    assert str(caught.value) == f"{key} is {value!r} but must be {KINDS[key].range_text()}"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("concurrency", text) for text in ("16.0", "1e3", "1_6", "٤", "", "-", "9" * 30)),
        *(("multiplier", text) for text in ("1_5", "1,5", "nan", "inf", "")),
        *(("keep_free", text) for text in ("%", "-1%", "100%", "nan%", "much")),
        *(("max_failures", text) for text in ("1.5", "%", "-1%", "nan%", "one")),
        *(("rate", text) for text in ("5/d", "/s", "5 per s", "0/s", "5/")),
        *(("padding", text) for text in ("-1s", "soon")),
        *(("mitigation", text) for text in ("maybe", "")),
        ("policy", "Cloudfetch"),
        ("log_format", "xml"),
    ],
)
def test_text_that_is_no_value_is_refused(key, text):
    """What a person may write by mistake is never read as some other value."""
    with pytest.raises(ValueError, match=r"must be|not a"):
        KINDS[key].parse(text)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("limit_rate", "fast", "limit_rate is 'fast' but not a rate"),
        ("concurrency", "many", "concurrency is 'many' but must be a whole number"),
        ("concurrency", True, "concurrency is True but must be a number"),
        ("dry_run", "no", "dry_run is 'no' but must be True or False"),
        ("to", [], "to must be one value or a list of them"),
        ("to", [3], "to must hold texts, and not int"),
        ("header", {"A B": "c"}, "header must be a name, a colon and a value"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(key, value, said):
    """Whatever type Python code gives."""
    with pytest.raises(ConfigError) as caught:
        Settings(**{key: value})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("limit_rate", "50M", 50 << 20),
        ("padding", "5s", 5.0),
        ("deadline", timedelta(minutes=2), 120.0),
        ("max_failures", "1%", 0.01),
        ("to", "/data", ("/data",)),
        ("to", Path("/data"), ("/data",)),
        ("to", ["/a", Path("/b")], ("/a", "/b")),
        ("header", "A: b", ("A: b",)),
        ("header", ["A: b"], ("A: b",)),
        ("header", {"A": "b", "C": "d"}, ("A: b", "C: d")),
        ("header_host", "h.test", ("h.test",)),
        ("keep_columns", ["id", "n"], "id,n"),
        ("hash_column", {"sha256": "digest"}, "sha256=digest"),
        ("ca_file", Path("ca.pem"), "ca.pem"),
        ("serve", 8080, "8080"),
    ],
)
def test_values_are_taken_as_python_code_has_them(key, value, taken):
    """Lists, mappings, paths and texts, wherever the table has a tuple, a number or a text."""
    assert getattr(Settings(**{key: value}), key) == taken


@pytest.mark.parametrize("text", ["200%", "100.1%", "inf%"])
def test_a_share_of_more_than_all_is_refused_by_its_range(text):
    """It is a mistake, which would be taken for all of them; the whole is allowed."""
    with pytest.raises(
        ValueError, match=r"^must be a number from 0 to 1000000000, or a share from 0% to 100%$"
    ):
        KINDS["max_failures"].parse(text)
    assert (KINDS["keep_free"].parse("10M"), KINDS["keep_free"].parse("5%")) == (10 << 20, 0.05)
    assert KINDS["keep_free"].show(0.05) == "5%"
    assert KINDS["max_failures"].parse("100%") == 1.0


@pytest.mark.parametrize("text", ["true", "TRUE", "yes", "on", "1", " True "])
def test_flag_is_read_from_the_usual_words(text):
    """The words of YAML, shells and people mean true; their opposites mean false."""
    opposite = {"true": "false", "yes": "no", "on": "off", "1": "0"}[text.strip().lower()]
    assert KINDS["mitigation"].parse(text) is True
    assert KINDS["mitigation"].parse(opposite) is False


@pytest.mark.parametrize("name", [name for name in KINDS if getattr(Settings(), name) is not None])
def test_default_is_valid_and_reads_back_from_its_own_text(name):
    """What help shows as the default is a value that can be given."""
    default = getattr(Settings(), name)
    assert KINDS[name].parse(KINDS[name].show(default)) == default


def test_range_text_is_in_the_units_in_which_people_write():
    """Help and errors speak of 24h, not of 86400."""
    assert KINDS["retry_budget"].range_text() == "from 0s to 24h"
    assert KINDS["multiplier"].range_text() == "above 1 and at most 1000"
    assert KINDS["log_format"].range_text() == "one of text, json"


def test_settings_are_frozen():
    """Nobody changes a run's settings under way."""
    with pytest.raises(FrozenInstanceError):
        Settings().concurrency = 3  # type: ignore[misc]


def test_straggler_part_has_the_same_values():
    """Each straggler option reaches the straggler room under its own name there."""
    part = Settings(
        mitigation=False, multiplier=2, quantile=0.5, padding=1, max_stragglers=3, sequential_fallback=True
    ).straggler
    assert (part.enabled, part.multiplier, part.quantile, part.padding_s) == (False, 2, 0.5, 1)
    assert (part.max_stragglers_before_fallback, part.sequential_fallback) == (3, True)


def test_run_header_hides_the_refresh_command():
    """A command line may hold a token, so the metrics get every value but that one."""
    public = Settings(refresh_command="sign --token s3cret").public()
    assert public["refresh_command"] == "<redacted>"
    assert public.keys() == KINDS.keys()
    assert Settings().public()["refresh_command"] is None


OF_THE_WIRE = {*NetworkOptions.__struct_fields__} - {"rates"}  # which are made of two settings


def test_the_wire_gets_its_own_options():
    """Each of them, under the name of its setting; the tighter limit is what a connection can count on."""
    settings = Settings(limit_rate=4096, limit_rate_per_host=2048)
    for name in OF_THE_WIRE:
        object.__setattr__(settings, name, f"value of {name}")  # no check of this table is of interest here
    rates = RateLimits(total_bps=4096, per_host_bps=2048)
    given: dict[str, Any] = {name: f"value of {name}" for name in OF_THE_WIRE}
    assert settings.network == NetworkOptions(rates=rates, **given)
    assert settings.rates == rates
    assert (rates.least_bps, RateLimits().least_bps) == (2048, None)
    assert Settings().network == NetworkOptions()
    assert "value" not in repr(settings.network)


def test_every_verb_that_asks_a_server_takes_the_options_of_the_wire():
    """They have two panels whole, which hold all of the wire but the largest head of a reply."""
    panels = {*PANELS["Network"], *PANELS["Logins and headers"]}
    assert panels == OF_THE_WIRE - {"max_head_size"}, "put the option into a panel of cfetch/cli/options.py"


def test_the_page_of_all_settings_is_that_of_the_table():
    """``python -m cfetch.base.config.settings_page > docs/settings.md`` writes it anew."""
    page = (Path(__file__).parents[3] / "docs/settings.md").read_text(encoding="utf-8")
    assert page == make_page()


def test_type_checkers_know_each_setting():
    """An option without its word in ``SettingsWords`` could not be given in typed code."""
    assert SettingsWords.__annotations__.keys() == set(Settings.__dataclass_fields__)
