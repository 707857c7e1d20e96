"""The options of mitigation: ranges, the drivers' property names, and errors that say what to change."""

import pytest

from cfetch.base.config.straggler import PROPERTY_PREFIX, StragglerConfig
from cfetch.base.errors import ConfigError

ENABLED = {PROPERTY_PREFIX + "straggler_mitigation_enabled": "true"}
NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("multiplier", 0.9, id="C1"),
        pytest.param("quantile", 1.5, id="C2"),
        pytest.param("multiplier", 1.0, id="C3"),
        pytest.param("quantile", 0.0, id="C4"),
        pytest.param("padding_s", -1, id="C5-padding"),
        pytest.param("max_stragglers_before_fallback", -1, id="C5-max"),
        pytest.param("multiplier", NAN, id="C8-nan-multiplier"),
        pytest.param("multiplier", INFINITY, id="C8-inf-multiplier"),
        pytest.param("quantile", NAN, id="C8-nan-quantile"),
        pytest.param("padding_s", NAN, id="C8-nan-padding"),
        pytest.param("padding_s", INFINITY, id="C8-inf-padding"),
    ],
)
def test_config_table_refuses(field, value):
    """A value out of range is refused at construction, with key, value and range."""
    with pytest.raises(ConfigError, match=rf"^{field} is {value}; it must be .+") as caught:
        StragglerConfig(**{field: value})
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("multiplier", 1.0001, id="C3"),
        pytest.param("quantile", 1.0, id="C4"),
        pytest.param("padding_s", 0.0, id="C5-padding"),
        pytest.param("max_stragglers_before_fallback", 0, id="C5-max"),
        pytest.param("max_stragglers_before_fallback", 10**400, id="C5-never"),
    ],
)
def test_config_table_accepts(field, value):
    """The last value inside each range is taken as it is."""
    assert getattr(StragglerConfig(**{field: value}), field) == value


def test_defaults():
    """C6: the documented defaults, and on when made directly."""
    assert StragglerConfig() == StragglerConfig(
        enabled=True,
        multiplier=1.5,
        quantile=0.6,
        padding_s=5.0,
        max_stragglers_before_fallback=10,
        sequential_fallback=False,
    )


@pytest.mark.parametrize(
    "properties", [None, {}, {PROPERTY_PREFIX + "straggler_mitigation_enabled": "False"}]
)
def test_parse_is_off_by_default(properties):
    """C7: properties that do not enable mitigation leave it disabled."""
    assert StragglerConfig.parse(properties) is StragglerConfig.DISABLED
    assert not StragglerConfig.DISABLED.enabled


def test_parse_ignores_other_keys_while_disabled():
    """C7: without enabling, even an unreadable multiplier is nobody's business."""
    assert not StragglerConfig.parse({PROPERTY_PREFIX + "straggler_multiplier": "abc"}).enabled


def test_parse_enabled_alone_gives_the_defaults():
    """Properties that are not given keep their defaults; properties of others are passed over."""
    assert StragglerConfig.parse({**ENABLED, "adbc.databricks.cloudfetch.prefetch": "x"}) == StragglerConfig()


def test_parse_reads_the_six_names():
    """C9: each of the drivers' property names sets its field."""
    assert StragglerConfig.parse(
        {
            "adbc.databricks.cloudfetch.straggler_mitigation_enabled": " TRUE ",
            "adbc.databricks.cloudfetch.straggler_multiplier": "2.5",
            "adbc.databricks.cloudfetch.straggler_quantile": "0.75",
            "adbc.databricks.cloudfetch.straggler_padding_seconds": "7.5",
            "adbc.databricks.cloudfetch.max_stragglers_per_query": "3",
            "adbc.databricks.cloudfetch.synchronous_fallback_enabled": "True",
        }
    ) == StragglerConfig(
        multiplier=2.5,
        quantile=0.75,
        padding_s=7.5,
        max_stragglers_before_fallback=3,
        sequential_fallback=True,
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("straggler_mitigation_enabled", "yes"),
        ("straggler_multiplier", "abc"),
        ("straggler_multiplier", "1,5"),
        ("straggler_multiplier", "1_5"),
        ("straggler_multiplier", "NaN"),
        ("straggler_multiplier", "1.0"),
        ("straggler_quantile", "60%"),
        ("straggler_padding_seconds", "5s"),
        ("straggler_padding_seconds", "Infinity"),
        ("max_stragglers_per_query", "1.5"),
        ("max_stragglers_per_query", "1_0"),
        ("max_stragglers_per_query", "-1"),
        ("synchronous_fallback_enabled", "1"),
    ],
)
def test_parse_refuses_what_it_cannot_read(name, text):
    """C8: an unreadable or out-of-range property is an error that names its full key, value and range."""
    with pytest.raises(ConfigError) as caught:
        StragglerConfig.parse({**ENABLED, PROPERTY_PREFIX + name: text})
    assert str(caught.value).startswith(f"adbc.databricks.cloudfetch.{name} is '{text}'; it must be ")
