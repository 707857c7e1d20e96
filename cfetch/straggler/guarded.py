"""Keeps an error of a straggler policy from ending a run: mitigation goes off, and the downloads go on.

A policy decides only which attempts are cut short. Files come whole without it, so an error in a policy, of
cfetch itself or of another package, costs the run its mitigation and nothing more.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from cfetch.straggler.check import Check

if TYPE_CHECKING:
    from cfetch.straggler.policy import Live, Policy, SecondRequests


class GuardedPolicy:
    """Asks ``policy``; after its first error it asks a ``BasePolicy``, which judges nobody.

    ``on_error`` gets the time of the last check and that error. The members that are not written here are
    those of ``Policy``; each is asked in the same way.
    """

    def __init__(self, policy: "Policy", on_error: Callable[[float, Exception], None]) -> None:
        self._policy = policy
        self._on_error = on_error
        self._now_s = 0.0
        self.tick_s = policy.tick_s
        self._finished = self._flagged = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - each member has the type that the port states
        """The member of the policy: its value, or a method that asks it."""
        try:
            member = getattr(self._policy, name)
        except Exception as error:  # noqa: BLE001 - it may be another package's code
            self._switch_off(error)
            member = getattr(self._policy, name)
        return partial(self._call, name) if callable(member) else member

    def _call(self, name: str, *values: object, **named: object) -> Any:  # noqa: ANN401
        try:
            return getattr(self._policy, name)(*values, **named)
        except Exception as error:  # noqa: BLE001 - it may be another package's code
            self._switch_off(error)
        return getattr(self._policy, name)(*values, **named)

    def check(self, now_s: float, attempts: "Collection[Live]" = ()) -> Check:
        """Look at all attempts in flight. To flag an attempt that is not among them is an error."""
        self._now_s = now_s
        try:
            check = self._policy.check(now_s, attempts)
            keys = {attempt.key for attempt in attempts}
            named = {*(flagged.id for flagged in check.stragglers), *check.lame}
            if not named <= keys:
                raise KeyError(f"no attempt in flight has the key {min(named - keys)}")
            self._finished, self._flagged = check.finished, self._flagged + len(check.stragglers)
            return check
        except Exception as error:  # noqa: BLE001 - it may be another package's code
            self._switch_off(error)
        return self._policy.check(now_s, attempts)

    @property
    def seconds(self) -> "SecondRequests | None":
        """The decisions about second requests, guarded as well."""
        seconds = self.__getattr__("seconds")
        return None if seconds is None else _GuardedSeconds(seconds, self._switch_off)

    def _switch_off(self, error: Exception) -> None:
        self._on_error(self._now_s, error)
        from cfetch.straggler.base_policy import BasePolicy  # only a policy that fails is replaced

        self._policy = base = BasePolicy(tick_s=self.tick_s)
        base.total_finished, base.total_stragglers = (
            self._finished,
            self._flagged,
        )  # as shown


class _GuardedSeconds:
    """Second requests of a policy: the answer is no, if it fails."""

    def __init__(self, seconds: "SecondRequests", switch_off: Callable[[Exception], None]) -> None:
        self._seconds = seconds
        self._switch_off = switch_off

    def is_sure(self, key: int) -> bool:
        return self._ask(self._seconds.is_sure, key)

    def is_trial(self, key: int) -> bool:
        return self._ask(self._seconds.is_trial, key)

    def is_worth(self, key: int, second: int) -> bool:
        return self._ask(self._seconds.is_worth, key, second)

    def _ask(self, ask: Callable[..., bool], *keys: int) -> bool:
        try:
            return ask(*keys)
        except Exception as error:  # noqa: BLE001 - it may be another package's code
            self._switch_off(error)
        return False
