"""The checked values of all options, and the values that rooms and parts of the engine get of them."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Unpack, get_type_hints

from cfetch.base.config.engine import PlacementOptions, Widths
from cfetch.base.config.kinds import OptionKind
from cfetch.base.config.option_table import SLOTS, OptionTable
from cfetch.base.config.reading import ReadingOptions
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.config.wire import NetworkOptions, RateLimits, ReplyOptions
from cfetch.base.errors import ConfigError

if TYPE_CHECKING:
    from cfetch.base.config.settings_words import SettingsWords

GROWN = 64  # downloads at a time, at most, if the user sets no number


def cap_concurrency(values: dict[str, Any]) -> None:
    """Let a ``concurrency`` that the user states be the maximum, unless that is stated too.

    Who says 16 means 16, although the default is 16 and grows.
    """
    if values.get("max_concurrency") is None:
        values["max_concurrency"] = values["concurrency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(OptionTable):
    """The options of ``cfetch download``, checked: ``Settings(concurrency=32, limit_rate="10M")``.

    Durations are seconds or texts as "5m", sizes are bytes or texts as "10M". Where several values are
    possible, one value, a list and a tuple are taken; headers may be a mapping. Only what is given counts:
    neither a file nor a ``CFETCH_`` variable is read.

    Raises:
        ConfigError: a value is out of its range; the message names the option and the range.
    """

    if TYPE_CHECKING:  # the types that code may state; those of the fields are what is made of them

        def __init__(self, **values: Unpack[SettingsWords]) -> None: ...

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            try:
                value = getattr(self, name)
                if not kind.is_as_read(value):
                    from cfetch.base.config.python_values import take  # the command line has none such

                    value = take(kind, value)
                    object.__setattr__(self, name, value)  # the way of frozen classes
                kind.check(value)
            except ValueError as error:
                shown = getattr(self, name)
                said = name if kind.is_list else f"{name} is {shown!r} but"  # a URL may hold a secret
                raise ConfigError(f"{said} {error}") from None
        if isinstance(self.url_column, tuple) and len(self.url_column) == 1:
            object.__setattr__(self, "url_column", self.url_column[0])
        most = self.max_concurrency
        if most is not None and most < self.concurrency:
            raise ConfigError(
                f"max_concurrency is {most} but must be at least concurrency, which is {self.concurrency}"
            )

    @property
    def most_at_once(self) -> int:
        """The most downloads at a time; a ``concurrency`` that the user sets is also the maximum."""
        if not self.is_adaptive:
            return self.concurrency
        return self.max_concurrency or (GROWN if self.concurrency == SLOTS else self.concurrency)

    @property
    def is_adaptive(self) -> bool:
        """Whether live progress decides about stragglers, widths of hosts and further segments."""
        return self.policy != "cloudfetch" and self.mitigation

    @property
    def straggler(self) -> StragglerConfig:
        """The options of the straggler room."""
        return StragglerConfig(
            enabled=self.mitigation,
            multiplier=self.multiplier,
            quantile=self.quantile,
            percentile=self.percentile,
            padding_s=self.padding,
            max_stragglers_before_fallback=self.max_stragglers,
            sequential_fallback=self.sequential_fallback,
        )

    @property
    def widths(self) -> Widths:
        """How many downloads the engine may run at the same time."""
        return Widths(
            concurrency=self.concurrency,
            most=self.most_at_once,
            per_host=self.per_host,
            requests_per_s=self.rate,
            adaptive=self.is_adaptive,
        )

    @property
    def limits_rate(self) -> bool:
        """Whether bytes per second are limited."""
        return self.limit_rate is not None or self.limit_rate_per_host is not None

    @property
    def most_segments(self) -> int:
        """How many connections one file may have: one, if requests a second are limited."""
        return self.segments if self.is_adaptive and self.rate is None else 1

    @property
    def placing(self) -> PlacementOptions:
        """How the engine places batches on volumes."""
        return PlacementOptions(
            concurrency=self.concurrency,
            mode=self.placement,
            batch_share=self.batch_share,
            write_timeout_s=self.write_timeout,
            deadline_s=self.placement_deadline,
        )

    @property
    def rates(self) -> RateLimits:
        """How fast the wire may read."""
        by_time = self.limit_rate if isinstance(self.limit_rate, str) else None
        total_bps = None if isinstance(self.limit_rate, str) else self.limit_rate
        return RateLimits(total_bps=total_bps, per_host_bps=self.limit_rate_per_host, by_time=by_time)

    @property
    def reading(self) -> ReadingOptions:
        """How the manifest is read."""
        return ReadingOptions(
            from_format=self.from_format,
            query=self.query,
            url_column=self.url_column if isinstance(self.url_column, str | None) else self.url_column[0],
            more_url_columns=self.url_column[1:] if isinstance(self.url_column, tuple) else (),
            url_template=self.url_template,
            path_column=self.path_column,
            size_column=self.size_column,
            hash_column=self.hash_column,
            keep_columns=tuple(filter(None, map(str.strip, (self.keep_columns or "").split(",")))),
            name_by=self.name_by,
            bad_rows=self.bad_rows,
            clash=self.clash,
            include=self.include or (),
            exclude=self.exclude or (),
        )

    @property
    def progress_shown(self) -> str:
        """How progress is shown: ``progress``, or what its earlier name ``log_format`` says."""
        return "json" if self.progress == "auto" and self.log_format == "json" else self.progress

    @property
    def first_byte_s(self) -> float:
        """How long the first try of a file waits for its first byte."""
        return 2 * self.stall_timeout if self.first_byte_timeout is None else self.first_byte_timeout

    @property
    def replies(self) -> ReplyOptions:
        """What is done with odd replies."""
        return ReplyOptions(
            encoded=self.encoded,
            accept_unframed=self.accept_unframed,
            doubtful=self.doubtful,
            max_bytes=self.max_file_size,
        )

    @property
    def network(self) -> NetworkOptions:
        """How the wire reaches servers: each option that is set, under its own name."""
        names = (field for field in NetworkOptions.__struct_fields__ if field != "rates")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        stated = {name: value for name, value in values.items() if value is not None}
        return NetworkOptions(rates=self.rates, **stated)

    def public(self) -> dict[str, object]:
        """All values for the metrics' run header. Values that may hold a secret are redacted."""
        values: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        secret = {name for name, kind in KINDS.items() if kind.secret and values[name] is not None}
        return values | dict.fromkeys(secret, "<redacted>")


def _kinds() -> dict[str, OptionKind]:
    hints: dict[str, Any] = get_type_hints(OptionTable, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(OptionTable)}


KINDS: dict[str, OptionKind] = _kinds()
