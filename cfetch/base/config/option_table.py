"""Every option of ``cfetch download``: its name, default, range and the reason for them, in one table.

The command line's flags, the keys of ``--config`` files, the ``CFETCH_…`` variables, ``--show-config`` and
the run header of the metrics are all made from this table.
"""

from dataclasses import dataclass
from typing import Annotated

from cfetch.base.config.kinds import (
    addresses,
    byte_rate,
    byte_size,
    choice,
    columns,
    command,
    count,
    count_or_auto,
    count_or_share,
    destinations,
    duration,
    flag,
    header_value,
    headers,
    hosts,
    origin,
    patterns,
    plugin_names,
    proxy_url,
    ratio,
    request_rate,
    size_or_share,
    text,
)
from cfetch.base.config.reading import BAD_ROWS, CLASH, NAMES
from cfetch.base.config.wire import MAX_HEAD_BYTES

# Only `policy: cloudfetch` reads these. A user who gives one and names no policy gets that policy; the run
# says so at its start, as a single option then changes how every straggler is recognised.
FORMULA = ("quantile", "percentile", "padding", "max_stragglers", "sequential_fallback", "check_interval")
SLOTS = 16  # downloads at a time, at the start
SLOWEST_PER_S = 0.0001  # requests: one in three hours
POLICIES = ("adaptive", "cloudfetch")  # of cfetch itself; packages may offer others
PRESETS = ("aws-s3", "azure-blob", "gcs")  # files of configs/


def _name_installed_policies() -> tuple[str, ...]:
    from cfetch.base.registry import list_foreign_names  # it reads the names of all installed packages

    return list_foreign_names("policies")


def _name_installed_engines() -> tuple[str, ...]:
    from cfetch.base.registry import list_foreign_names  # as above

    return list_foreign_names("engines")


def _name_installed_listeners() -> tuple[str, ...]:
    from cfetch.base.registry import list_foreign_names  # as above

    return list_foreign_names("listeners")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTable:
    """The options, one field each; ``Settings`` checks their values."""

    # Where the files go.
    to: Annotated[
        tuple[str, ...],
        destinations("Where the files go; repeat it to share them out. Also s3://bucket/prefix."),
    ] = (".",)
    base_url: Annotated[str | None, text("URL", "Base of the manifest's relative URLs; ends in a slash.")] = (
        None
    )
    state: Annotated[
        str | None,
        text("DIR", "Where cfetch keeps its own files; for object stores also s3://bucket/prefix."),
    ] = None
    mounted: Annotated[
        bool,
        flag(
            "Go on only if a file system is mounted at each destination, or it is the volume that an earlier "
            "run has labelled."
        ),
    ] = False
    group: Annotated[
        bool,
        flag("Share the destinations and the state with the group of their directories, whatever the umask."),
    ] = False

    # How a manifest is read.
    from_format: Annotated[
        str | None,
        text("FORMAT", "Read the manifest as this format, such as csv or urls (default: by its content)."),
    ] = None
    query: Annotated[
        str | None,
        text(
            "EXPR", "Make the rows of any JSON by this JMESPath, such as 'images[].{url: link, size: bytes}'."
        ),
    ] = None
    url_column: Annotated[
        str | tuple[str, ...] | None,
        columns(
            "The column of a table that holds the URLs (default: found by its name); repeat it if each row "
            "has several."
        ),
    ] = None
    url_template: Annotated[
        str | None,
        text("URL", "Make the URL of each row of a table, as 'https://h.example/{id}' of its column id."),
    ] = None
    path_column: Annotated[
        str | None, text("NAME", "The column that holds the files' paths; none if no column does.")
    ] = None
    size_column: Annotated[
        str | None, text("NAME", "The column that holds the sizes in bytes; none if no column does.")
    ] = None
    hash_column: Annotated[
        str | None, text("HASH=NAME", "The column that holds the hashes, such as sha256=digest.")
    ] = None
    keep_columns: Annotated[
        str | None,
        text("A,B", "Columns of a table that are kept for the metrics; URLs in them are redacted."),
    ] = None
    name_by: Annotated[
        str,
        choice(
            NAMES,
            "How a file is named whose path the manifest does not state: by the last segment of its URL, by "
            "the URL's whole path (url-path), by the segment and its query (url-query), by the number of its "
            "row, by the hash of its URL, or by what its server says (header) or redirects to (final-url), "
            "which costs a request.",
            "docs/manifests.md has an example of each",
        ),
    ] = "last"
    bad_rows: Annotated[
        str,
        choice(BAD_ROWS, "End before the first byte if a row is faulty, or skip such rows and list them."),
    ] = "fail"
    clash: Annotated[
        str,
        choice(
            CLASH,
            "If two files would be one at the destination, let the later one fail and bring all others, or "
            "give it another name (rename: a-2.txt), or leave it out.",
            "docs/manifests.md says which names clash",
        ),
    ] = "fail"
    include: Annotated[
        tuple[str, ...] | None,
        patterns("Only paths that match, like *.parquet (* matches slashes too); repeat it for more."),
    ] = None
    exclude: Annotated[
        tuple[str, ...] | None,
        patterns("No path that matches; what is here already stays. Repeat it for more."),
    ] = None
    allow_empty: Annotated[bool, flag("Take a manifest without entries for a success.")] = False

    # How fast.
    preset: Annotated[
        str,
        choice(
            ("none", *PRESETS),
            "Defaults for a cloud's object store: aws-s3, azure-blob or gcs; values of your own count more.",
            "configs/ has the values with their reasons",
        ),
    ] = "none"
    concurrency: Annotated[
        int,
        count(
            1,
            1024,
            "Downloads at the same time, at the start.",
            "16 fills a 10 Gbit/s link from object stores; see configs/",
        ),
    ] = SLOTS
    max_concurrency: Annotated[
        int | None,
        count(
            1, 1024, "Up to so many downloads while throughput grows (default: 64, or --concurrency if set)."
        ),
    ] = None
    per_host: Annotated[
        int | None, count(1, 1024, "Downloads at the same time from one host (default: no own limit).")
    ] = None
    rate: Annotated[
        float | None,
        request_rate(
            SLOWEST_PER_S,
            100_000,
            "Requests to one host, as in 5/s or 30/m; a redirect is followed at once (default: no limit).",
        ),
    ] = None
    limit_rate: Annotated[
        int | str | None,
        byte_rate(
            1 << 10,
            1 << 40,
            "Bytes per second in total, like 10M (default: no limit); by the time of day: "
            "'08:00-18:00=2M else=20M'.",
            has_timetable=True,
        ),
    ] = None
    limit_rate_per_host: Annotated[
        int | None,
        byte_rate(1 << 10, 1 << 40, "Bytes per second from one host, like 10M (default: no limit)."),
    ] = None

    # Several volumes.
    placement: Annotated[
        str,
        choice(
            ("finish", "count", "round-robin"),
            "Which of several volumes a batch goes to: where it would be done first (finish), where the "
            "fewest files are (count), or to each in turn (round-robin).",
            "a slow disk gets less by itself",
        ),
    ] = "finish"
    batch_share: Annotated[
        float,
        ratio(
            0,
            1,
            "Files without a batch of their own are placed together, by this share of the plan's bytes.",
            "fifty batches even out over eight volumes, and a failing one loses little; only with several",
            above=True,
        ),
    ] = 0.02
    keep_free: Annotated[
        float,
        size_or_share(
            1 << 60,
            "Space that downloads leave free in each directory, like 10G or 5% of its file system.",
            "other programs may need room there; 16 MiB are kept in any case",
        ),
    ] = 0
    write_timeout: Annotated[
        float,
        duration(
            1,
            3600,
            "How long a volume may take for a write before its batches go elsewhere.",
            "a disk that spins up or a busy object store answers within a minute",
        ),
    ] = 60.0
    placement_deadline: Annotated[
        float,
        duration(
            1,
            86_400,
            "How long a batch may wait for a volume that takes it, before it fails.",
            "outlives a remount or a store's outage of minutes",
        ),
    ] = 300.0

    # Where it runs.
    engine: Annotated[
        str,
        choice(
            ("local", "spark"),
            "Where it runs: in this process, or as a job on Spark.",
            "see docs/spark.md",
            find_more=_name_installed_engines,
        ),
    ] = "local"
    spark_master: Annotated[
        str | None, text("URL", "The cluster for --engine spark (default: all processors of this machine).")
    ] = None
    processes: Annotated[
        int | None,
        count_or_auto(
            1,
            64,
            "Processes of this machine that share the work (default: auto: several where that is faster).",
        ),
    ] = None

    # Stragglers.
    mitigation: Annotated[bool, flag("Restart downloads that are far slower than normal.")] = True
    policy: Annotated[
        str,
        choice(
            POLICIES,
            "How a straggler is recognised: by live progress, or by the CloudFetch formula. An option that "
            "only the formula reads chooses it where no policy is named.",
            "at most 1.05 times the better of formula and none in 400 simulated runs; docs/stragglers.md",
            find_more=_name_installed_policies,
        ),
    ] = "adaptive"
    multiplier: Annotated[
        float,
        ratio(
            1, 1000, "How many times the normal time a file may take.", "50 % slower than normal", above=True
        ),
    ] = 1.5
    quantile: Annotated[
        float,
        ratio(
            0,
            1,
            "Share of started files that must be done before anyone is judged (only cloudfetch).",
            "a stable median",
            above=True,
        ),
    ] = 0.6
    percentile: Annotated[
        int,
        count(
            1,
            99,
            "Normal is the speed that so many per cent of the finished files reach (only cloudfetch).",
            "the median; 95 spares what one file in twenty needs",
        ),
    ] = 50
    padding: Annotated[
        float,
        duration(
            0, 3600, "Extra time every file gets (only cloudfetch).", "room for variance in small files"
        ),
    ] = 5.0
    max_stragglers: Annotated[
        int,
        count(
            0,
            1_000_000,
            "Stragglers before --sequential-fallback acts (only cloudfetch).",
            "then the problem is systemic",
        ),
    ] = 10
    sequential_fallback: Annotated[
        bool,
        flag(
            "After --max-stragglers, start one file at a time (only cloudfetch).",
            "a last resort; off by default",
        ),
    ] = False
    check_interval: Annotated[
        float,
        duration(
            0.05,
            2,
            "How often running downloads are judged (only cloudfetch).",
            "checks over 5 s apart judge nobody",
        ),
    ] = 0.5
    min_rate: Annotated[
        int | None,
        byte_rate(
            1,
            1 << 40,
            "Cancel a try that brings less over 5 s and ask again over a fresh connection, up to three times "
            "a file, with any policy (default: no such limit).",
        ),
    ] = None
    segments: Annotated[
        int,
        count(
            1,
            1024,
            "Connections for one large file where slots are idle (adaptive, no --rate); 1: only one.",
            "the slots of a run, which the last file may have for itself",
        ),
    ] = 16

    # Errors.
    max_attempts: Annotated[
        int, count(1, 100, "Tries per file when errors occur; cancelled stragglers and 429s do not count.")
    ] = 5
    retry_budget: Annotated[
        float,
        duration(0, 86_400, "Time per file in which failed tries are repeated.", "outlives a proxy restart"),
    ] = 300.0
    max_failures: Annotated[
        float,
        count_or_share(
            0,
            1_000_000_000,
            "Exit with 0 if at most so many files fail (or so many per cent of them, as in 1%).",
            "every missing file is an error unless somebody says otherwise",
        ),
    ] = 0
    deadline: Annotated[
        float | None,
        duration(
            1,
            31 * 86_400,
            "End the run so long after its downloads began: what is not in place is left for the next run, "
            "exit code 1 (default: none).",
        ),
    ] = None
    stall_timeout: Annotated[
        float,
        duration(
            0.05, 3600, "Give up a try after so long without a byte.", "as the AWS CRT and curl's usual 30 s"
        ),
    ] = 30.0
    first_byte_timeout: Annotated[
        float | None,
        duration(
            0.05,
            86_400,
            "How long a server may make a file before its first byte; twice as long in each further try "
            "(default: twice --stall-timeout).",
        ),
    ] = None
    connect_timeout: Annotated[
        float, duration(0.05, 600, "Give up connecting after this long.", "a SYN is repeated at 1, 3 and 7 s")
    ] = 10.0

    # Fresh links.
    refresh_command: Annotated[
        str | None,
        command("Prints a fresh link for the entry that it gets as JSON on its standard input."),
    ] = None
    statement_host: Annotated[
        str | None,
        origin("Workspace to ask for fresh links of a SQL statement's result; token in DATABRICKS_TOKEN."),
    ] = None

    # The network, and what servers are told.
    proxy: Annotated[
        str | None,
        proxy_url(
            "Proxy for all requests, of HTTP or SOCKS (socks5h://HOST); put one with a password into "
            "CFETCH_PROXY or a file."
        ),
    ] = None
    proxy_from_env: Annotated[
        bool,
        flag(
            "Use HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; beside --proxy, NO_PROXY only.",
            "else they are ignored: a proxy sees the URLs",
        ),
    ] = False
    netrc: Annotated[
        bool,
        flag("Take logins from the file that NETRC names, or ~/.netrc.", "no login that nobody asked for"),
    ] = False
    netrc_redirects: Annotated[
        bool,
        flag(
            "With --netrc: log in at hosts to which servers redirect, too, as curl -n -L does (Earthdata).",
            "else a server chooses who gets a login",
        ),
    ] = False
    http_redirects: Annotated[
        bool,
        flag(
            "Follow redirects from https to http, too.",
            "others can read and change what comes over http, and nothing proves a file without a hash",
        ),
    ] = False
    transport: Annotated[
        str,
        choice(
            ("lean", "session"),
            "Who speaks HTTP: cfetch's lean exchange, or aiohttp's client session, which is chosen by itself "
            "where only it can do a thing (SOCKS, Digest).",
            "the session takes three times the processor time for a small file",
        ),
    ] = "lean"
    header: Annotated[
        tuple[str, ...] | None,
        headers(
            "Send this header to the files' host (or to those of --header-host); repeat it for more. Other "
            "users of this machine see a command line: put a secret into CFETCH_HEADER or a file, or use "
            "--bearer-env."
        ),
    ] = None
    header_host: Annotated[
        tuple[str, ...] | None,
        hosts(
            "Who gets --header and --bearer-env; repeat it for more, * is all hosts (default: the files' "
            "host, if they have only one)."
        ),
    ] = None
    bearer_env: Annotated[
        str | None,
        text("NAME", "Send the token in this environment variable, as Authorization: Bearer TOKEN."),
    ] = None
    cookies: Annotated[
        str | None,
        text("FILE", "Send the cookies of this file, in Netscape's format, each to its own domain."),
    ] = None
    user_agent: Annotated[
        str | None, header_value("TEXT", "Send this as User-Agent (default: cfetch and its version).")
    ] = None
    resolve: Annotated[
        tuple[str, ...] | None,
        addresses(
            "Connect to this address for this host and port, as curl does; more addresses follow after "
            "commas, and are tried in their order. For servers that are tried before their names change."
        ),
    ] = None
    ca_file: Annotated[str | None, text("FILE", "PEM file of the CAs to trust, instead of the system's.")] = (
        None
    )
    client_cert: Annotated[
        str | None, text("FILE", "PEM file of the certificate that servers may ask for.")
    ] = None
    client_key: Annotated[
        str | None, text("FILE", "PEM file of its key (default: the certificate's file holds it).")
    ] = None
    accept_html: Annotated[
        bool,
        flag("Accept a web page under the name of another kind of file, if no size or hash is stated."),
    ] = False
    max_file_size: Annotated[
        int | None,
        byte_size(
            1,
            1 << 50,
            "Refuse a file that is larger: before its request if the size is stated, else at the first byte "
            "too many (default: no limit).",
        ),
    ] = None
    max_head_size: Annotated[
        int,
        byte_size(
            16 << 10,
            64 << 20,
            "Refuse a reply whose headers are larger in all; one header may have an eighth of it, and there "
            "may be one for each KiB.",
            "16K for one header is what other programs permit at most; a server could fill the memory",
        ),
    ] = MAX_HEAD_BYTES
    doubtful: Annotated[
        str,
        choice(
            ("note", "accept", "fail"),
            "A file of no stated size or hash that may be an error sent as 200 (one page among a host's "
            "other files, text in the place of an archive): note it, accept it (pages and error documents "
            "too), or fail it.",
            "a note costs nothing, and nobody can be sure",
        ),
    ] = "note"
    accept_unframed: Annotated[
        bool,
        flag(
            "Take files of no stated size or hash whose replies have no length and end with the connection: "
            "if one is cut, nobody sees it."
        ),
    ] = False
    encoded: Annotated[
        str,
        choice(
            ("keep", "decode", "refuse"),
            "A reply with a Content-Encoding that neither size, hash nor name explains: keep its bytes as "
            "they come, decode them, or refuse it.",
            "curl, wget and aria2 keep them; a note tells it",
        ),
    ] = "keep"
    public_only: Annotated[
        bool, flag("Refuse addresses that are not public, also behind names and redirects.")
    ] = False

    # The guard of a plan.
    heartbeat_interval: Annotated[
        float,
        duration(
            1, 3600, "How often a run writes its heartbeat.", "RFC-79's minute; seconds do on a local disk"
        ),
    ] = 60.0
    heartbeat_misses: Annotated[
        int,
        count(0, 100, "Heartbeats that may be missing; one more, and the run counts as dead.", "RFC-79's"),
    ] = 2
    wait: Annotated[
        bool, flag("If another run holds the plan, wait until it has ended; else exit with code 4.")
    ] = False

    # What a run leaves.
    durability: Annotated[
        str,
        choice(
            ("power", "crash"),
            "What a finished file survives: a power cut, or only the death of cfetch.",
            "flushed in groups, a few times a second",
        ),
    ] = "power"
    metrics: Annotated[
        str | None,
        text(
            "FILE",
            "Per-file metrics: JSON Lines, or one array if FILE ends in .json; compressed if .zst follows "
            "(default: in the state).",
        ),
    ] = None
    metrics_tables: Annotated[
        str | None,
        text(
            "DIR",
            "Put the metrics into the Parquet tables in this directory when the run ends (extra `parquet`).",
        ),
    ] = None
    keep_metrics: Annotated[
        int | None,
        count(
            1,
            1_000_000,
            "Keep the metrics of so many runs below the state, this one included (default: of all). Those of "
            "earlier runs are compressed, if the extra `zstd` is there.",
        ),
    ] = None
    failures: Annotated[
        str | None,
        text(
            "FILE",
            "Write the failed entries as a list; it is in JSON Lines and has their whole links. It has the "
            "other entry too if one failed as its name clashes.",
        ),
    ] = None
    failed_from: Annotated[
        str | None,
        text("FILE", "Only the files that the run of these metrics did not bring."),
    ] = None
    existing: Annotated[
        str,
        choice(
            ("trust", "check", "refetch"),
            "Files in place: trust, check or refetch them; trust goes by hash, by size or by the record of "
            "their link, and check asks the server whether they have changed.",
            "nothing is asked for a complete set",
        ),
    ] = "trust"
    mtime: Annotated[
        bool,
        flag("Give files the time at which their server changed them last (Last-Modified).", "as mirrors do"),
    ] = True

    # Files to standard output: --to -.
    ordered: Annotated[bool, flag("With --to -: in the manifest's order, not as files come.")] = False
    joined: Annotated[
        bool, flag("With --to -: the files' bytes one after the other, in order, and no tar archive.")
    ] = False
    unpacked: Annotated[bool, flag("With --to -: unpack LZ4 frames, zstd and gzip (extra `stream`).")] = False
    memory: Annotated[
        int,
        byte_size(
            1 << 20,
            1 << 50,
            "With --to -: the most that is held of files under way and of files that wait.",
            "two seconds at 1 Gbit/s, in which a slow file is asked for again",
        ),
    ] = 256 << 20

    # How a run is watched, and its output.
    listener: Annotated[
        tuple[str, ...] | None,
        plugin_names(
            "NAME",
            "Tell the events of the run to a listener of an installed package; repeat it for several. None "
            "gets events only by being installed.",
            find_known=_name_installed_listeners,
        ),
    ] = None
    serve: Annotated[
        str | None,
        text(
            "[HOST:]PORT",
            "Show the run live as a page at this address, with /summary and /metrics (extra `serve`). Only "
            "this machine can read it; with another HOST a token is needed. Port 0 takes a free one.",
        ),
    ] = None
    serve_token_env: Annotated[
        str | None,
        text("NAME", "Readers of --serve must send the token in this environment variable."),
    ] = None
    metrics_textfile: Annotated[
        str | None,
        text(
            "FILE",
            "Write the run's numbers for node_exporter's textfile collector when it ends (extra `serve`).",
        ),
    ] = None
    progress: Annotated[
        str,
        choice(
            ("auto", "bar", "plain", "json"),
            "How progress is shown: a live bar, plain lines, or JSON lines; auto is a bar on a terminal, and "
            "lines elsewhere and in CI.",
        ),
    ] = "auto"
    log_format: Annotated[
        str, choice(("text", "json"), "The earlier name: json is --progress json, and text is its default.")
    ] = "text"
    color: Annotated[bool, flag("Colour on a terminal; NO_COLOR works too.")] = True
    quiet: Annotated[bool, flag("Only errors on stderr.")] = False
    json: Annotated[bool, flag("Print the summary as one JSON document on stdout.")] = False
    verbose: Annotated[bool, flag("A line for each file and each retry; also all that --explain says.")] = (
        False
    )
    explain: Annotated[bool, flag("Say why each batch went to its volume.")] = False
    dry_run: Annotated[bool, flag("Check everything and say what would be done; download nothing.")] = False
