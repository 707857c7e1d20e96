"""curl's own test suite as a judge of cfetch: real curl and cfetch on the same replies.

``python benchmarks/curl_suite.py PATH``, where PATH is a checked-out copy of curl's repository. Every
case whose servers speak HTTP is played: its replies are served raw on loopback, once to curl and once to
cfetch, with the case's own options where both have them, and with ``-L --fail``, which cfetch always
does. What uploads is played as a plain GET. Both run in a network namespace that has nothing but
loopback, so no request leaves this machine.

The classes:

equal               both took the same bytes, or both refused
stricter, way out   cfetch refuses what curl takes, and an option or a field of the manifest makes it take it
stricter            … and nothing does
wrong               cfetch took other bytes than curl
takes more          cfetch took what curl refuses
feature             an option of curl does what cfetch has nothing for; without it, both are equal
"""

import argparse
import asyncio
import base64
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import trustme

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from curl_cases import CurlCase, CurlServer, read_cases, split_command  # noqa: E402

from cfetch.manifest.url_completion import encode_url  # noqa: E402
from cfetch.plugins.lab.bench.child import clean_environment  # noqa: E402
from tests.warm import WarmPopen  # noqa: E402

LIMIT_S = 60.0
GATHER_S = 2.0
MOST_AT_ONCE = 24
IN_NAMESPACE = "CURL_SUITE_NAMESPACE"
FEATURES = frozenset(
    {"http", "https", "cookies", "SSL", "OpenSSL", "IPv6", "Largefile", "local-http", "proxy"}
)

# Options of curl with a value, then those without one.
OUTPUT = frozenset({
    "-o", "--output", "--output-dir", "-D", "--dump-header", "-w", "--write-out", "--stderr",
    "--libcurl", "--trace", "--trace-ascii", "--etag-save", "--expect100-timeout", "--create-file-mode",
})  # fmt: skip
UPLOAD = frozenset({
    "-d", "--data", "--data-binary", "--data-raw", "--data-urlencode", "--data-ascii", "-F", "--form",
    "--form-string", "-T", "--upload-file", "-X", "--request", "--json", "--url-query",
})  # fmt: skip
VALUES = frozenset({
    "--httpsig-keyid", "--httpsig-algo", "--httpsig-key", "--httpsig-headers", "--connect-to", "-c",
    "--cookie-jar", "-K", "--config", "--variable", "--expand-data", "--expand-url",
    "--expand-httpsig-key", "--ipfs-gateway", "--pinnedpubkey", "--hsts", "--noproxy", "-z",
    "--time-cond", "--etag-compare", "--aws-sigv4", "--alt-svc", "--max-redirs", "--socks5", "--socks4",
    "--socks5-hostname", "--interface", "--proxy-header", "--haproxy-clientip", "--request-target",
    "--ech", "--engine", "--doh-url", "--proto-default", "--tls-max", "--crlfile", "--preproxy",
    "--proto", "--proto-redir", "--proxy1.0", "-C", "--continue-at", "--retry-delay",
    "--retry-max-time", "--limit-rate", "--rate", "-Y", "-y", "--speed-time", "--speed-limit",
    "--proxy-service-name", "-E", "--cert", "--key", "--capath", "--unix-socket", "--local-port",
    "--ssl-sessions", "--keepalive-time", "--login-options", "-t", "--delegation", "--ciphers",
    "--service-name", "--happy-eyeballs-timeout-ms", "-Q", "--parallel-max",
})  # fmt: skip
QUIET = frozenset({
    "-s", "-S", "-sS", "--silent", "--show-error", "-v", "--verbose", "-i", "--include",
    "--show-headers", "--no-include", "-N", "-g", "--globoff", "--no-progress-meter", "-f", "--fail",
    "-L", "--location", "--create-dirs", "-4", "--ipv4", "--http1.1", "-0", "--http1.0", "-G", "--get",
    "-I", "--head", "--form-escape", "-#", "--progress-bar", "--xattr", "--styled-output",
    "--no-styled-output", "-R", "--remote-time", "--remote-name-all", "--remote-header-name",
    "--no-remote-name", "-O", "--remote-name", "-J", "-OJ", "-JO", "-OJR", "-Ji", "--basic",
    "--no-keepalive", "--ssl-revoke-best-effort", "--path-as-is", "--fail-early", "--fail-with-body",
    "--no-clobber", "--clobber", "--skip-existing", "--remove-on-error", "--out-null", "-q", "--follow",
    "--suppress-connect-headers", "--no-ca-native", "-B", "--use-ascii", "--no-http0.9", "--post301",
    "--post302", "--post303",
})  # fmt: skip
BOTH = frozenset({
    "-H", "--header", "-A", "--user-agent", "-e", "--referer", "-u", "--user", "-b", "--cookie", "-x",
    "--proxy", "-U", "--proxy-user", "--resolve", "--max-filesize", "--retry", "--connect-timeout",
    "-m", "--max-time", "-r", "--range", "--netrc-file", "--cacert", "--oauth2-bearer", "--url",
})  # fmt: skip
NAMED = frozenset({
    "-J", "-OJ", "-JO", "-OJR", "-Ji", "--remote-header-name",
})  # fmt: skip

# What a message asks for that is no option.
AS_ENCODED = ("the URL percent-encoded, its host as xn--",)
# The ways out that are tried, each by itself, where cfetch refuses what curl takes.
WAYS_OUT: tuple[tuple[str, ...], ...] = (
    ("--accept-unframed",),
    ("--doubtful", "accept"),
    ("--encoded", "decode"),
    ("--encoded", "keep"),
    AS_ENCODED,
)
SAID: dict[tuple[str, ...], str] = {AS_ENCODED: "percent-encode"}
STATED = "size and hash stated"


def is_netscape(path: Path) -> bool:
    """Whether a file has a cookie in Netscape's form; curl reads headers of replies too."""
    return any(line.count(b"\t") == 6 for line in path.read_bytes().splitlines())


@dataclasses.dataclass(slots=True)
class Operation:
    """What one run of curl does: its URLs, the options for both, and those that only curl has."""

    urls: list[str] = dataclasses.field(default_factory=list)
    curl: list[str] = dataclasses.field(default_factory=list)
    only_curl: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    cfetch: list[str] = dataclasses.field(default_factory=list)
    entry: dict[str, object] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    is_named: bool = False
    is_upload: bool = False

    def _is_usual(self, header: str) -> bool:
        """Whether a header is one that cfetch lets its user set; curl can also drop and repeat its own."""
        name, colon, value = header.partition(":")
        if not re.fullmatch(r"[\w-]{1,200}", name):
            return False
        is_own = name.strip().lower() in {
            "host",
            "transfer-encoding",
            "content-length",
            "connection",
            "range",
        }
        is_again = any(word.lower().startswith(f"{name.lower()}:") for word in self.cfetch)
        return (
            bool(colon and value.strip())
            and header.isascii()
            and not is_own
            and not is_again
            and name[:1] != "@"
        )

    def add(self, option: str, value: str, ca_file: str, *, has_netrc: bool) -> None:  # noqa: PLR0912 - a table
        """Sort an option with a value, or without one."""
        words = (option, value) if value else (option,)
        match option:
            case "-H" | "--header" if self._is_usual(value):
                self.cfetch += ["--header", value]
            case "-A" | "--user-agent" if value:
                self.cfetch += ["--user-agent", value]
            case "-e" | "--referer" if ";" not in value:
                self.cfetch += ["--header", f"Referer: {value}"]
            case "-u" | "--user" if ":" in value:
                self.cfetch += [
                    "--header",
                    f"Authorization: Basic {base64.b64encode(value.encode()).decode()}",
                ]
            case "--oauth2-bearer":
                self.cfetch += ["--header", f"Authorization: Bearer {value}"]
            case "-b" | "--cookie" if "=" in value and self._is_usual(f"Cookie: {value}"):
                self.cfetch += ["--header", f"Cookie: {value}"]
            case "-b" | "--cookie" if Path(value).is_file() and is_netscape(Path(value)):
                self.cfetch += ["--cookies", value]
            case "-x" | "--proxy" if not value.startswith("socks"):
                scheme, _, place = value.rpartition("://")
                self.cfetch += ["--proxy", f"{scheme or 'http'}://{place.partition('/')[0]}"]
            case "-U" | "--proxy-user" if "--proxy" in self.cfetch:
                at_proxy = self.cfetch.index("--proxy") + 1
                self.cfetch[at_proxy] = self.cfetch[at_proxy].replace("://", f"://{value}@", 1)
            case "--resolve" if value.count(":") >= 2:
                self.cfetch += ["--resolve", value]
            case "--max-filesize":
                self.cfetch += ["--max-file-size", value]
            case "--retry":
                self.cfetch += ["--max-attempts", str(min(int(value) + 1, 100))]
            case "--connect-timeout":
                self.cfetch += ["--connect-timeout", value]
            case "-m" | "--max-time":
                self.cfetch += ["--deadline", f"{value}s"]
            case "-r" | "--range" if match := re.fullmatch(r"(\d+)-(\d+)", value):
                self.entry = {"offset": int(match[1]), "length": int(match[2]) - int(match[1]) + 1}
            case "--compressed":
                self.cfetch += ["--encoded", "decode"]
            case "--netrc-file":
                self.environment["NETRC"] = value
                self.cfetch += ["--netrc"]
            case "-n" | "--netrc" | "--netrc-optional":
                self.cfetch += ["--netrc"] if "--netrc" not in self.cfetch and has_netrc else []
            case "-k" | "--insecure" | "--cacert":
                self.cfetch += ["--ca-file", ca_file]
                words = ("--cacert", ca_file)
            case _:
                self.only_curl.append(words)
                return
        self.curl += words


def expand(url: str) -> list[str]:
    """The URLs that curl makes of braces and brackets."""
    match = re.search(r"\{([^{}]*)\}|\[(\w+)-(\w+)(?::(\d+))?\]", url)
    if match is None:
        return [url]
    if match[1] is not None:
        words = match[1].split(",")
    elif match[2].isdigit() and match[3].isdigit():
        words = [
            str(n).zfill(len(match[2])) for n in range(int(match[2]), int(match[3]) + 1, int(match[4] or 1))
        ]
    else:
        words = [chr(n) for n in range(ord(match[2][0]), ord(match[3][0]) + 1, int(match[4] or 1))]
    return [each for word in words[:50] for each in expand(url[: match.start()] + word + url[match.end() :])]


def read_operations(case: CurlCase, server: CurlServer, ca_file: str, folder: Path) -> list[Operation]:
    """The runs of curl that a case asks for; a plain GET if its command is of another program."""
    words = [] if case.tool or case.command_type else split_command(server.substitute(case.command))
    plain = Operation(urls=[f"http://127.0.0.1:{server.port}/{case.number}"])
    if not words:
        return [plain]
    operations = [Operation()]
    known = OUTPUT | UPLOAD | VALUES | BOTH
    rest = iter(words)
    for word in rest:
        operation = operations[-1]
        option, value = word, ""
        if re.match(r"-[A-Za-z].", word) and word[:2] in known and word not in QUIET:
            option, value = word[:2], word[2:]
        elif word in known:
            value = next(rest, "")
        if option == "--next":
            operations.append(Operation())
        elif option == "--url" or not option.startswith("-"):
            operation.urls.append(value or word)
        elif option in QUIET or option in OUTPUT:
            operation.is_named |= option in NAMED
            operation.is_upload |= option in {"-I", "--head", "-G", "--get"}
        elif option in UPLOAD:
            operation.is_upload = True
        else:
            operation.add(option, value, ca_file, has_netrc=(folder / ".netrc").exists())
    for operation in operations:
        urls = [url if "://" in url else f"http://{url}" for url in operation.urls]
        is_plain = "-g" in words or "--globoff" in words
        operation.urls = urls if is_plain else [one for url in urls for one in expand(url)]
    return [operation for operation in operations if operation.urls] or [plain]


@dataclasses.dataclass(slots=True)
class Result:
    """The bytes of each URL (None: refused), the names if the server chose them, and what was said."""

    files: list[bytes | None]
    names: list[str]
    said: str = ""


async def run(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    child = await asyncio.create_subprocess_exec(
        *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
        env=clean_environment() | {"HOME": str(folder)} | environment,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            out, error = await child.communicate()
            return child.returncode or 0, out.decode(errors="replace"), error.decode(errors="replace")
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):  # it may have ended, and its pipe be open elsewhere
            child.kill()
        await child.wait()
        return -9, "", f"not ended within {LIMIT_S:g} s"


def prepare(case: CurlCase, server: CurlServer, folder: Path) -> dict[str, str]:
    """Write the files that the case's command reads; its variables of the environment."""
    for name in ("file", "file1", "file2", "file3", "file4"):
        match = re.search(
            rf"<client>.*?<{name} name=\"([^\"]+)\"[^>]*>\n(.*?)</{name}>", case.text, re.DOTALL
        )
        if match:
            path = Path(server.substitute(match[1]))
            if path.is_relative_to(folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(server.substitute(match[2]).encode("latin-1"))
                path.chmod(0o600)  # of a netrc, cfetch asks for it
    part = case.section("client", "setenv")
    lines = server.substitute(part[0]).splitlines() if part else []
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def ask_curl(
    operation: Operation, folder: Path, environment: dict[str, str], *, is_whole: bool
) -> Result:
    """Curl, with the options that only curl has if ``is_whole``."""
    words = ["curl", "-q", "-sS", "-g", "-L", "--fail", "-w", "%{urlnum} %{exitcode}\\n"]
    words += operation.curl + [word for option in operation.only_curl if is_whole for word in option]
    if not any(word in words for word in ("-m", "--max-time")):
        words += ["-m", "15"]
    if operation.is_named:
        (folder / "out").mkdir(exist_ok=True)
        words += ["-OJ", "--output-dir", str(folder / "out")]
    for number, url in enumerate(operation.urls):
        words += [url] if operation.is_named else ["-o", str(folder / f"out{number}"), url]
    _, out, said = await run(words, folder, environment)
    codes = dict(re.findall(r"^(\d+) (\d+)$", out, re.MULTILINE))
    files: list[bytes | None] = [None] * len(operation.urls)
    names = sorted(path.name for path in (folder / "out").iterdir()) if operation.is_named else []
    for number in range(len(files)):
        if codes.get(str(number)) == "0":
            path = folder / "out" / names[0] if names else folder / f"out{number}"
            files[number] = path.read_bytes() if path.exists() else b""
    return Result(files, names, said)


Entries: TypeAlias = list[dict[str, object]]


class Batches:
    """Runs of cfetch for many cases at a time, where none needs options of its own: a start takes the most.

    What has the same options is gathered for ``GATHER_S``. If the list has a fault, each is run by itself.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[
            tuple[str, ...], list[tuple[list[dict[str, object]], asyncio.Future[Result]]]
        ] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, words: tuple[str, ...], entries: Entries) -> Result:
        """The files of the entries, and what was said of them."""
        waiting = self._waiting.setdefault(words, [])
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        waiting.append((entries, future))
        if len(waiting) == 1:
            task = asyncio.create_task(self._run_soon(words))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _run_soon(self, words: tuple[str, ...]) -> None:
        await asyncio.sleep(GATHER_S)
        waiting = self._waiting.pop(words)
        groups = [waiting[start : start + MOST_AT_ONCE] for start in range(0, len(waiting), MOST_AT_ONCE)]
        await asyncio.gather(*(self._run(words, group) for group in groups))

    async def _run(self, words: tuple[str, ...], group: list[tuple[Entries, asyncio.Future[Result]]]) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            entries = [
                entry | {"path": f"{number}/{entry['path']}"}
                for number, (some, _) in enumerate(group)
                for entry in some
            ]
            (folder / "m.json").write_text(json.dumps({"version": 1, "files": entries}))
            code, _, said = await run([*words, "--concurrency", "64"], folder, {})
            if code == 2 and len(group) > 1:
                await asyncio.gather(*(self._run(words, [one]) for one in group))
                return
            errors = {} if code == 2 else read_errors(folder / "out")
            for number, (some, future) in enumerate(group):
                paths = [f"{number}/{entry['path']}" for entry in some]
                files = [read_file(folder / "out" / path) for path in paths]
                words_of = [f"failed: {path}: {errors[path]}" for path in paths if path in errors]
                future.set_result(Result(files, [], "\n".join(words_of) or said))


def read_errors(to: Path) -> dict[str, str]:
    """The errors by path, of the metrics of a run."""
    lines = [line for path in to.glob(".cfetch/metrics/*.jsonl") for line in path.read_text().splitlines()]
    records = map(json.loads, lines)
    return {record["path"]: str(record["error"]) for record in records if record.get("error")}


def read_file(path: Path) -> bytes | None:
    """The bytes of a file; None: it is not there."""
    return path.read_bytes() if path.is_file() else None


def list_entries(operation: Operation, more: tuple[str, ...], stated: Result | None) -> Entries:
    """The entries of an operation's manifest."""
    entries = []
    for number, url in enumerate(operation.urls):
        entry: dict[str, object] = {"url": url} | operation.entry
        if more == AS_ENCODED:
            entry["url"] = encode_url(url)
        if not operation.is_named:
            last = urlsplit(url).path.rpartition("/")[2]
            entry["path"] = (
                f"{number}/{last if re.fullmatch('[A-Za-z0-9][A-Za-z0-9_.-]{0,99}', last) else 'f'}"
            )
        if stated and stated.files[number] is not None:
            body = stated.files[number] or b""
            entry |= {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        entries.append(entry)
    return entries


async def ask_cfetch(
    operation: Operation,
    folder: Path,
    environment: dict[str, str],
    batches: Batches | None,
    more: tuple[str, ...] = (),
    stated: Result | None = None,
) -> Result:
    """cfetch, with further options, or with what is stated of the files; ``batches`` None: by itself."""
    entries = list_entries(operation, more, stated)
    words = [sys.executable, "-m", "cfetch", "download", "m.json", "--to", "out", "--stall-timeout", "4s"]
    words += ["--durability", "crash", "--retry-budget", "10s", *operation.cfetch]
    words += () if more in SAID else more
    words += [] if "--max-attempts" in words else ["--max-attempts", "1"]
    words += ["--name-by", "header"] if operation.is_named else []
    is_plain = not (operation.cfetch or environment or operation.environment or operation.is_named)
    if batches is not None and is_plain:
        return await batches.ask(tuple(words), entries)
    (folder / "m.json").write_text(json.dumps({"version": 1, "files": entries}))
    code, _, said = await run(words, folder, environment | operation.environment)
    if operation.is_named:
        files: list[bytes | None] = [None] * len(entries)
        paths = [] if not (folder / "out").is_dir() else sorted((folder / "out").iterdir())
        paths = [path for path in paths if path.name != ".cfetch"]
        files[0] = paths[0].read_bytes() if paths and code == 0 else None
        return Result(files, [path.name for path in paths], said)
    return Result([read_file(folder / "out" / str(entry["path"])) for entry in entries], [], said)


@dataclasses.dataclass(slots=True)
class Verdict:
    """The class of a case, and why."""

    number: int
    name: str
    word: str
    why: str = ""
    is_named_by_message: bool = True


class Judge:
    """Plays cases, each in a folder and with a server of its own for each tool."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches = Batches(folder)
        authority = trustme.CA()
        self._ca_file = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self._ca_file)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost", "127.0.0.1", "::1").configure_cert(self._tls)

    async def play(
        self, case: CurlCase, index: int, tool: str, **options: object
    ) -> tuple[Operation, Result]:
        """One tool on one operation of the case."""
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            async with CurlServer(case, folder, self._tls, FEATURES) as server:
                environment = prepare(case, server, folder)
                operation = read_operations(case, server, self._ca_file, folder)[index]
                if any(word.endswith("_proxy") for word in map(str.lower, environment)):
                    operation.cfetch.append("--proxy-from-env")
                if tool == "curl":
                    return operation, await ask_curl(
                        operation, folder, environment, is_whole=bool(options["is_whole"])
                    )
                # One jar is for all files of a run, and a host's cookies are for all of its ports.
                batches = None if "set-cookie" in case.text.lower() else self._batches
                return operation, await ask_cfetch(operation, folder, environment, batches, **options)  # type: ignore[arg-type]

    async def judge(self, case: CurlCase) -> list[Verdict]:
        """A verdict on each operation of a case."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            async with CurlServer(case, Path(name), self._tls, FEATURES) as server:
                count = len(read_operations(case, server, self._ca_file, Path(name)))
        return [await self._judge(case, index) for index in range(count)]

    async def _judge(self, case: CurlCase, index: int) -> Verdict:
        operation, curl = await self.play(case, index, "curl", is_whole=True)
        _, ours = await self.play(case, index, "cfetch")
        verdict = Verdict(
            case.number, case.name, "equal", "both refuse" if curl.files[0] is None else "same bytes"
        )
        if is_same(ours, curl):
            return verdict
        if self._is_as_stated(case, ours, curl):
            verdict.why = "as the suite states it, where this curl does otherwise"
            return verdict
        if any(not url.startswith("http") for url in operation.urls):
            return Verdict(case.number, case.name, "feature", "another scheme through a proxy")
        command = case.section("reply", "servercmd")
        if command and "upgrade" in command[0]:
            return Verdict(case.number, case.name, "feature", "WebSocket: its server speaks no HTTP then")
        if operation.only_curl:
            _, plain = await self.play(case, index, "curl", is_whole=False)
            options = " ".join(dict.fromkeys(option[0] for option in operation.only_curl))
            if not is_same(plain, curl) or is_same(ours, plain):
                verdict.word, verdict.why = "feature", options
                if is_same(ours, plain):
                    return verdict
            curl = plain
        if any(
            mine is not None and theirs is None for mine, theirs in zip(ours.files, curl.files, strict=True)
        ):
            return Verdict(case.number, case.name, "takes more", f"curl: {curl.said.strip()[:150]}")
        if None not in ours.files or (curl.names != ours.names and ours.names):
            how = f"{ours.names} for {curl.names}" if ours.names else f"{ours.files} for {curl.files}"
            return Verdict(case.number, case.name, "wrong", how[:300])
        return await self._find_way_out(case, index, curl, ours)

    def _is_as_stated(self, case: CurlCase, ours: Result, curl: Result) -> bool:
        """Whether the case itself states this result, which an older curl may not have."""
        code = case.section("verify", "errorcode")
        is_failure = code is not None and code[0].strip() != "0"
        if None in ours.files:
            return is_failure
        if len(ours.files) > 1:
            return False
        names = re.findall(r"<(data\w*)", case.text)
        parts = [part[0].encode("latin-1") for name in names if (part := case.section("reply", name))]
        body = ours.files[0] or b""
        is_there = any(part.endswith(body) for part in parts)
        return not is_failure and is_there and curl.files[0] is None and bool(body)

    async def _find_way_out(self, case: CurlCase, index: int, curl: Result, ours: Result) -> Verdict:
        reason = re.search(r"(?:failed|cfetch): (.*fault.*\n.*|.*)", ours.said)
        why = " ".join((reason[1] if reason else ours.said[-200:]).split())
        words = " ".join(ours.said.split())
        for way in sorted(WAYS_OUT, key=lambda way: way[0] not in ours.said):
            if SAID.get(way, "") not in ours.said:
                continue
            _, again = await self.play(case, index, "cfetch", more=way)
            if is_same(again, curl):
                is_named = way[0] in words or way in SAID
                return Verdict(
                    case.number, case.name, "stricter, way out", f"{' '.join(way)} <- {why}"[:300], is_named
                )
        _, again = await self.play(case, index, "cfetch", stated=curl)
        if is_same(again, curl):
            is_named = re.search("state (the|its) size|hash", words) is not None
            return Verdict(case.number, case.name, "stricter, way out", f"{STATED} <- {why}"[:300], is_named)
        if "install it" in words:
            return Verdict(
                case.number,
                case.name,
                "stricter, way out",
                f"the package that the message names <- {why}"[:300],
            )
        return Verdict(case.number, case.name, "stricter", why[:300])


def is_same(ours: Result, curl: Result) -> bool:
    """Whether both brought the same, under the same names if the server chose them."""
    return ours.files == curl.files and (ours.names == curl.names or curl.files == [None])


async def main() -> None:
    """Play, print each case that is not equal, then the table."""
    parser = argparse.ArgumentParser(description="curl's test suite as a judge of cfetch")
    parser.add_argument("repository", type=Path, help="a checked-out copy of curl's repository")
    parser.add_argument("--only", default="", help="numbers of cases, with commas")
    parser.add_argument("--begin", type=int, default=0, help="the first number")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write all verdicts here")
    args = parser.parse_args()
    cases = read_cases(args.repository.resolve())
    cases = [case for case in cases if case.number >= args.begin]
    if args.only:
        cases = [case for case in cases if str(case.number) in args.only.split(",")]
    verdicts: list[Verdict] = []
    places = asyncio.Semaphore(args.jobs)

    async def play(case: CurlCase) -> None:
        async with places:
            for verdict in await judge.judge(case):
                verdicts.append(verdict)
                if args.json:
                    args.json.write_text(
                        json.dumps([dataclasses.asdict(verdict) for verdict in verdicts], indent=1)
                    )
                if verdict.word != "equal" or args.only:
                    print(
                        verdict.number,
                        verdict.word,
                        verdict.name,
                        verdict.why,
                        verdict.is_named_by_message,
                        sep="\t",
                        flush=True,
                    )

    with tempfile.TemporaryDirectory(prefix="curl-suite-") as name:
        judge = Judge(Path(name))
        await asyncio.gather(*map(play, cases))
    print(f"\n{len(verdicts)} runs of {len(cases)} cases")
    for word, count in Counter(verdict.word for verdict in verdicts).most_common():
        print(f"{count:5} {word}")
    ways = Counter(
        verdict.why.partition(" <- ")[0] for verdict in verdicts if verdict.word == "stricter, way out"
    )
    for way, count in ways.most_common():
        print(f"{count:5}   {way}")
    unnamed = [verdict.number for verdict in verdicts if not verdict.is_named_by_message]
    print(f"{len(unnamed):5} ways out that the message does not name: {unnamed}")


if __name__ == "__main__":
    if IN_NAMESPACE not in os.environ:  # only loopback, so that no case reaches another machine
        words = [
            "unshare",
            "--user",
            "--map-root-user",
            "--net",
            "sh",
            "-c",
            'ip link set lo up && exec "$@"',
            "sh",
        ]
        os.execvpe(words[0], [*words, sys.executable, *sys.argv], os.environ | {IN_NAMESPACE: "1"})
    subprocess.Popen = WarmPopen  # type: ignore[misc]  # each cfetch is forked from a process that has imported it
    asyncio.run(main())
