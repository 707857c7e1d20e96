"""What code may state as values of ``Settings``, for type checkers; no run imports it."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Protocol, TypeAlias, TypedDict


class PathLike(Protocol):
    """A path; the module ``os`` is not for pure modules."""

    def __fspath__(self) -> str:
        """The path as a text."""


Values: TypeAlias = str | PathLike | Iterable[str | PathLike]


class SettingsWords(TypedDict, total=False):
    """A keyword for each option of the table."""

    to: Values
    base_url: str | None
    state: str | PathLike | None
    mounted: bool
    group: bool
    from_format: str | None
    query: str | None
    url_column: str | Iterable[str] | None
    url_template: str | None
    path_column: str | None
    size_column: str | None
    hash_column: str | Mapping[str, str] | None
    keep_columns: str | Iterable[str] | None
    name_by: str
    bad_rows: str
    clash: str
    include: Values | None
    exclude: Values | None
    allow_empty: bool
    preset: str
    concurrency: int | str
    max_concurrency: int | str | None
    per_host: int | str | None
    rate: float | str | None
    limit_rate: int | str | None
    limit_rate_per_host: int | str | None
    placement: str
    batch_share: float | str
    write_timeout: float | str | timedelta
    placement_deadline: float | str | timedelta
    engine: str
    spark_master: str | None
    processes: int | str | None
    mitigation: bool
    policy: str
    multiplier: float | str
    quantile: float | str
    percentile: int | str
    padding: float | str | timedelta
    max_stragglers: int | str
    sequential_fallback: bool
    check_interval: float | str | timedelta
    min_rate: int | str | None
    segments: int | str
    max_attempts: int | str
    retry_budget: float | str | timedelta
    max_failures: float | str
    deadline: float | str | timedelta | None
    stall_timeout: float | str | timedelta
    first_byte_timeout: float | str | timedelta | None
    connect_timeout: float | str | timedelta
    refresh_command: str | None
    statement_host: str | None
    proxy: str | None
    proxy_from_env: bool
    netrc: bool
    netrc_redirects: bool
    http_redirects: bool
    transport: str
    max_head_size: int | str
    header: Values | Mapping[str, str] | None
    header_host: Values | None
    bearer_env: str | None
    cookies: str | PathLike | None
    user_agent: str | None
    resolve: Values | None
    ca_file: str | PathLike | None
    client_cert: str | PathLike | None
    client_key: str | PathLike | None
    accept_html: bool
    max_file_size: int | str | None
    keep_free: float | str
    ordered: bool
    joined: bool
    unpacked: bool
    memory: int | str
    doubtful: str
    accept_unframed: bool
    encoded: str
    public_only: bool
    heartbeat_interval: float | str | timedelta
    heartbeat_misses: int | str
    wait: bool
    durability: str
    metrics: str | PathLike | None
    metrics_tables: str | PathLike | None
    keep_metrics: int | str | None
    failures: str | PathLike | None
    failed_from: str | PathLike | None
    existing: str
    mtime: bool
    listener: Values | None
    serve: str | int | None
    serve_token_env: str | None
    metrics_textfile: str | PathLike | None
    progress: str
    log_format: str
    color: bool
    quiet: bool
    json: bool
    verbose: bool
    explain: bool
    dry_run: bool
