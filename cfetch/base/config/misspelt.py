"""Names that are meant as properties of the Databricks drivers, and are not spelt so."""

import difflib
from collections.abc import Iterable

from cfetch.base.config.straggler import PROPERTY_PREFIX, list_properties, spell_property

CLOSE = 0.8  # the drivers' other options are less like them
MEANT = ("stragg", "stragl", "fallback")


def find_misspelt(variables: Iterable[str]) -> dict[str, str]:
    """Find variables that are meant as one of the properties: name as written -> the right name.

    The drivers have other options with the same prefix, which are none of ours: only a name that is like one
    of the properties, or speaks of stragglers or of the fallback, is meant for them.
    """
    right = {spelling for name in list_properties() for spelling in spell_property(name)}
    misspelt = {}
    for variable in set(variables) - right:
        for way, prefix in enumerate(spell_property(PROPERTY_PREFIX)):
            if variable.lower().startswith(prefix.lower()):
                near = find_nearest_property(variable[len(prefix) :])
                if near is not None:
                    misspelt[variable] = spell_property(near)[way]
    return misspelt


def find_nearest_property(name: str) -> str | None:
    """The property that a name, without its prefix, is meant as; None: it is none of them."""
    names = [known.removeprefix(PROPERTY_PREFIX) for known in list_properties()]
    is_meant = any(word in name.lower() for word in MEANT)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.0 if is_meant else CLOSE)
    return PROPERTY_PREFIX + near[0] if near else None
