"""Straggler policies of other packages, found by their entry points.

A package offers a policy by an entry point of the group ``cfetch.policies``. Its name is a value of
``--policy``; its object makes a ``cfetch.straggler.policy.Policy`` from the arguments of ``policy_of``.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUP = "cfetch.policies"


def find_policy(name: str) -> EntryPoint | None:
    """The entry point of an installed policy; None: there is none of this name."""
    return next(iter(entry_points(group=GROUP, name=name)), None)


def name_policies() -> tuple[str, ...]:
    """The names of the installed policies, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def load_policy(name: str) -> Any:  # noqa: ANN401 - the straggler room knows its type
    """The object that makes the policy. Raises ImportError: its package is broken or gone."""
    point = find_policy(name)
    if point is None:
        raise ImportError(f"no installed package offers the policy {name}")
    return point.load()
