"""Measures cfetch and its peers over real TCP, through emulated wide-area networks on one machine.

``wan.c`` joins two network namespaces and delays, loses and paces every packet between them; nginx serves on
one side, a downloader runs on the other. ``networks/*.conf`` are the networks. As root, on Linux::

    python benchmarks/wan/run.py                     # the rows that are still missing
    python benchmarks/wan/run.py --networks clean-200,bloat --works medium --tools cfetch,curl --rounds 1
    python benchmarks/wan/run.py --table             # what has been measured, as a Markdown table

Each network, work, tool and kind of TCP has a file of its own in ``rows/``, one line of JSON a round, so that
a stopped command goes on where it was and the table grows over several evenings. A row says at which load of
the machine it was measured: a busy machine slows cfetch more than curl. ``chrt -r 5 python run.py`` goes
before all other work of a busy machine (``first`` in a row). ``--lane NAME`` gives a command namespaces of
its own: slow networks, which need little of the processor, can be measured beside each other.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trustme

HERE = Path(__file__).resolve().parent
ROWS = HERE / "rows"
NAME, PORTS = "files.wan.test", {False: 8080, True: 8443}
LIMIT_S = 300
WORKS: dict[str, list[tuple[int, int]]] = {  # files of so many bytes
    "small": [(2000, 16 << 10)],
    "medium": [(200, 1 << 20)],
    "large": [(1, 100 << 20)],
    "mixed": [(4, 20 << 20), (400, 64 << 10)],
}
TOOLS = ("cfetch", "cfetch-none", "curl", "curl-tuned", "aria2", "aria2-x16", "wget2")
PROGRAMS = {"curl": "curl", "curl-tuned": "curl", "aria2": "aria2c", "aria2-x16": "aria2c", "wget2": "wget2"}


class Network(NamedTuple):
    """``text``: the emulator's lines. ``addresses``: what the server's name leads to."""

    name: str
    text: str
    addresses: Sequence[str]
    limit_rate: str


class Case(NamedTuple):
    """A row's key."""

    network: str
    work: str
    tool: str
    control: str
    tls: bool

    def file(self) -> Path:
        """Where its rounds are kept."""
        kind = f"{self.control}{'-tls' if self.tls else ''}"
        return ROWS / f"{self.network}.{self.work}.{self.tool}.{kind}.jsonl"

    def rounds(self) -> list[dict[str, Any]]:
        """The rounds that have been measured."""
        try:
            return [json.loads(line) for line in self.file().read_text().splitlines()]
        except FileNotFoundError:
            return []


def read_network(path: Path) -> Network:
    """Read a network; the lines ``address`` and ``limit-rate`` are not for the emulator."""
    text = path.read_text()
    lines = [line.split() for line in text.splitlines()]
    addresses = [words[1] for words in lines if words[0] == "address"] or ["10.77.0.2"]
    limits = [words[1] for words in lines if words[0] == "limit-rate"]
    return Network(path.stem, text, addresses, limits[0] if limits else "0")


def at_priority(priority: int) -> list[str]:
    """What runs a command before all others of a busy machine, if this program itself may go before them.

    The emulator goes before the server, and the server before the downloader: a packet leaves when it is due.
    """
    is_first = os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO)
    return ["chrt", "-r", str(priority)] if is_first else []


def require_machine() -> None:
    """Raise SystemExit: this machine cannot emulate a network; the message says what is missing."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        sys.exit("run.py makes network namespaces: it needs Linux and root")
    missing = [name for name in ("cc", "ip", "nginx", "curl") if shutil.which(name) is None]
    if missing:
        sys.exit(
            f"run.py needs {', '.join(missing)}: apt-get install gcc libc6-dev iproute2 nginx-light curl"
        )
    if not Path("/dev/net/tun").exists():
        sys.exit("run.py needs /dev/net/tun: modprobe tun, or start the container with that device")


class Bench:
    """The files, the programs and the namespaces; ``with`` removes them at the end."""

    def __init__(self, folder: Path, cfetch: str, lane: str) -> None:
        self.folder = folder
        self._cfetch = cfetch
        self.client, self.server = f"wcli{lane}", f"wsrv{lane}"

    def __enter__(self) -> "Bench":
        _compile(self._cfetch)
        subprocess.run(["cc", "-O2", "-o", self.folder / "wan", HERE / "wan.c"], check=True)
        for space in (self.client, self.server):
            subprocess.run(["ip", "netns", "delete", space], check=False, stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "add", space], check=True)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        authority.issue_cert(NAME).private_key_and_cert_chain_pem.write_to_path(self.folder / "server.pem")
        for work, sets in WORKS.items():
            self._make_files(work, sets)
        return self

    def __exit__(self, *_: object) -> None:
        for space in (self.client, self.server):
            subprocess.run(["ip", "netns", "delete", space], check=False)
            shutil.rmtree(f"/etc/netns/{space}", ignore_errors=True)

    def _make_files(self, work: str, sets: Sequence[tuple[int, int]]) -> None:
        (self.folder / "www" / work).mkdir(parents=True)
        draw = random.Random(work)
        sizes = [size for count, size in sets for _ in range(count)]
        for number, size in enumerate(sizes):
            (self.folder / "www" / work / f"f{number}").write_bytes(draw.randbytes(size))

    def _write_lists(self, case: Case) -> tuple[Path, Path]:
        scheme = "https" if case.tls else "http"
        numbers = list(range(sum(count for count, _ in WORKS[case.work])))
        random.Random(1).shuffle(numbers)
        urls = [f"{scheme}://{NAME}:{PORTS[case.tls]}/{case.work}/f{number}" for number in numbers]
        plain, of_curl = self.folder / "urls.txt", self.folder / "urls.curl"
        plain.write_text("".join(f"{url}\n" for url in urls))
        of_curl.write_text("".join(f"url={url}\noutput={url.rpartition('/')[2]}\n" for url in urls))
        return plain, of_curl

    def command(self, case: Case, to: Path) -> list[str]:
        """The command of a tool; each may open 16 connections, and trusts the server's certificate."""
        urls, of_curl = self._write_lists(case)
        ca = str(self.folder / "ca.pem")
        own = [self._cfetch, "download", str(urls), "--to", str(to), "--json", "--quiet"]
        own += ["--ca-file", ca] if case.tls else []
        curl = ["curl", "-Z", "--parallel-max", "16", "-s", "--fail", "--retry-all-errors", "--cacert", ca]
        aria2 = ["aria2c", "-q", "-i", str(urls), "-d", str(to), "--file-allocation=none"]
        aria2 += [f"--ca-certificate={ca}"]
        wget2 = ["wget2", "-q", "-i", str(urls), "-P", str(to), "--max-threads=16", "--no-http2"]
        return {
            "cfetch": own,
            "cfetch-none": [*own, "--no-mitigation"],
            "curl": [*curl, "--retry", "8", "-K", str(of_curl)],
            "curl-tuned": [*curl, "--retry", "20", "--retry-delay", "1", "--speed-limit", "20000",
                           "--speed-time", "3", "-K", str(of_curl)],
            "aria2": [*aria2, "-j16", "-x1"],
            "aria2-x16": [*aria2, "-j5", "-x16", "-s16", "-k1M"],
            "wget2": [*wget2, f"--ca-certificate={ca}"],
        }[case.tool]  # fmt: skip

    @contextmanager
    def network(self, network: Network, control: str, seed: int) -> Iterator[subprocess.Popen[str]]:
        """The emulator and nginx, at work."""
        (self.folder / "network").write_text(f"{network.text}\nseed {seed}\n")
        (self.folder / "nginx.conf").write_text(self._configuration(network))
        hosts = Path(f"/etc/netns/{self.client}/hosts")
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.write_text("".join(f"{address} {NAME}\n" for address in network.addresses))
        wan = subprocess.Popen(
            [*at_priority(30), self.folder / "wan", self.folder / "network", self.client, self.server],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert wan.stdout is not None
            if wan.stdout.readline() != "ready\n":
                sys.exit(f"the emulator did not start: {wan.communicate()[1]}")
            for space in (self.client, self.server):
                _run_in(space, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={control}")
                _run_in(space, "ip", "tcp_metrics", "flush")  # what the kernel knows of earlier rounds
            with _running(self.server, ["nginx", "-c", str(self.folder / "nginx.conf")]):
                yield wan
        finally:
            wan.send_signal(signal.SIGTERM)
            wan.wait()

    def _configuration(self, network: Network) -> str:
        listens = "".join(
            f"listen {address}:{port}{' ssl' if tls else ''}; "
            for tls, port in PORTS.items()
            for address in ("10.77.0.2", "[fd77::2]")
        )
        pem = self.folder / "server.pem"
        return (
            f"user root; worker_processes 1; daemon off; pid {self.folder}/pid;"
            f" error_log {self.folder}/error; events {{ worker_connections 1024; }}"
            f" http {{ access_log off; sendfile on; keepalive_requests 100000;"
            f" limit_rate {network.limit_rate}; ssl_certificate {pem}; ssl_certificate_key {pem};"
            f" server {{ {listens} root {self.folder}/www; }} }}"
        )

    def measure(self, case: Case, network: Network, seed: int) -> dict[str, Any]:
        """One round: seconds, the exit code, wrong files, and what cfetch says of itself."""
        to = self.folder / "to"
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        load = os.getloadavg()[0]
        with self.network(network, case.control, seed) as wan:
            command = ["ip", "netns", "exec", self.client, *at_priority(10), *self.command(case, to)]
            begun_s = time.monotonic()
            with subprocess.Popen(
                command,
                cwd=to,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as tool:
                try:
                    out, errors = tool.communicate(timeout=LIMIT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(tool.pid, signal.SIGKILL)
                    out, errors = tool.communicate()
            seconds = time.monotonic() - begun_s
        row: dict[str, Any] = {
            "seconds": round(seconds, 2),
            "exit": tool.returncode if seconds < LIMIT_S else "limit",
            "wrong": self._count_wrong(case.work, to),
            "round": seed,
            "load": round(load, 1),
            "first": bool(at_priority(1)),
            "taken": time.strftime("%Y-%m-%d"),
            "emulator": wan.stderr.read().splitlines() if wan.stderr else [],
        }
        if case.tool.startswith("cfetch"):
            row |= _read_summary(out, errors)
        return row

    def _count_wrong(self, work: str, to: Path) -> int:
        return sum(
            _digest(to / path.name) != _digest(path) for path in (self.folder / "www" / work).iterdir()
        )


def _read_summary(out: str, errors: str) -> dict[str, Any]:
    try:
        summary = json.loads(out)
    except ValueError:
        return {"error": errors[-300:]}
    fetched = {key: summary["bytes"][key] for key in ("fetched", "wasted")}
    return {"retries": summary["retries"], "stragglers": summary["stragglers"], **fetched}


def _compile(cfetch: str) -> None:
    """Compile cfetch's modules, as its installation does: else each start would take 0.2 s longer."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = Path(cfetch).with_name("python")
    if python.exists():
        words = "import cfetch, compileall; compileall.compile_dir(cfetch.__path__[0], quiet=1)"
        subprocess.run([python, "-c", words], check=True)


def _digest(path: Path) -> bytes:
    try:
        return hashlib.blake2b(path.read_bytes()).digest()
    except FileNotFoundError:
        return b""


def _run_in(space: str, *words: str) -> None:
    subprocess.run(["ip", "netns", "exec", space, *words], check=False, stderr=subprocess.DEVNULL)


@contextmanager
def _running(space: str, words: Sequence[str]) -> Iterator[None]:
    server = subprocess.Popen(
        ["ip", "netns", "exec", space, *at_priority(20), *words], stderr=subprocess.DEVNULL
    )
    asking = ["curl", "-s", "-o", "/dev/null", "http://10.77.0.2:8080/"]
    try:
        while subprocess.run(["ip", "netns", "exec", space, *asking], check=False).returncode:
            if server.poll() is not None:
                sys.exit("nginx did not start")
            time.sleep(0.02)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def print_table() -> None:
    """For each network and work: each tool's median, its worst round, and how many rounds.

    The last columns are cfetch's: its median over that without mitigation and over that of the best peer,
    cancelled attempts per hundred files, the seconds that it claims to have saved, those that it has saved by
    the medians, and wrong files.
    """
    cases: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
    for path in sorted(ROWS.glob("*.jsonl")):
        network, work, tool, kind = path.name.removesuffix(".jsonl").rsplit(".", 3)
        rounds = [json.loads(line) for line in path.read_text().splitlines()]
        cases.setdefault((network, work, kind), {})[tool] = rounds
    columns = [tool for tool in TOOLS if any(tool in tools for tools in cases.values())]
    own = ["over without", "over best peer", "cut, %", "claims, s", "saved, s", "wrong"]
    print(f"| network | {' | '.join([*columns, *own])} |")
    print("|---" * (len(columns) + len(own) + 1) + "|")
    for (network, work, kind), tools in cases.items():
        medians = {tool: statistics.median(row["seconds"] for row in rows) for tool, rows in tools.items()}
        name = f"{network}{'' if (work, kind) == ('medium', 'cubic') else f', {work}, {kind}'}"
        cells = [_show(tools.get(tool, ())) for tool in columns]
        print(f"| {' | '.join([name, *cells, *_judge(work, tools, medians)])} |")


def _judge(work: str, tools: dict[str, list[dict[str, Any]]], medians: dict[str, float]) -> list[str]:
    """The columns about cfetch alone."""
    rows = [row for row in tools.get("cfetch", ()) if "stragglers" in row]
    if not rows:
        return [""] * 6
    took, without = medians["cfetch"], medians.get("cfetch-none")
    peers = [median for tool, median in medians.items() if not tool.startswith("cfetch")]
    files = sum(count for count, _ in WORKS[work])
    cut = statistics.median(row["stragglers"]["cancelled"] for row in rows)
    claims = statistics.median(row["stragglers"]["saved_s"] for row in rows)
    return [
        f"{took / without:.2f}" if without else "",
        f"{took / min(peers):.2f}" if peers else "",
        f"{100 * cut / files:.1f}",
        f"{claims:.1f}",
        f"{without - took:.1f}" if without else "",
        str(sum(row["wrong"] for row in rows)),
    ]


def _show(rounds: Sequence[dict[str, Any]]) -> str:
    if not rounds:
        return ""
    seconds = [row["seconds"] for row in rounds]
    failed = sum(1 for row in rounds if row["exit"] != 0)
    spread = f" ({min(seconds):.1f} to {max(seconds):.1f}; {len(seconds)})" if len(seconds) > 1 else ""
    return f"{statistics.median(seconds):.1f}{spread}{f', {failed} failed' if failed else ''}"


def list_cases(asked: argparse.Namespace, networks: Sequence[Network]) -> Iterator[tuple[int, Case, Network]]:
    """Every case once for each round, the tools of a network in turn, so that they meet the same machine."""
    for number in range(1, asked.rounds + 1):
        for network in networks:
            for work in asked.works.split(","):
                for tool in asked.tools.split(","):
                    yield number, Case(network.name, work, tool, asked.control, asked.tls), network


def main() -> None:
    """Measure what is missing, or print the table."""
    known = {path.stem: path for path in sorted((HERE / "networks").glob("*.conf"))}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(known), help="names of networks/*.conf, with commas")
    parser.add_argument("--works", default="small,medium,large,mixed")
    parser.add_argument("--tools", default="cfetch,cfetch-none,curl,wget2", help=f"of {', '.join(TOOLS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--control", default="cubic", choices=("cubic", "bbr", "reno"))
    parser.add_argument("--tls", action="store_true", help="https in place of http")
    parser.add_argument("--cfetch", default=str(Path(sys.executable).with_name("cfetch")), metavar="COMMAND")
    parser.add_argument("--lane", default="", help="at most 8 letters: a second command beside this one")
    parser.add_argument(
        "--table", action="store_true", help="print what has been measured, and measure nothing"
    )
    asked = parser.parse_args()
    if asked.table:
        print_table()
        return
    require_machine()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    networks = [read_network(known[name]) for name in asked.networks.split(",")]
    ROWS.mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cfetch-wan-")))
        bench = stack.enter_context(Bench(folder, asked.cfetch, asked.lane))
        for number, case, network in list_cases(asked, networks):
            if case.tool in PROGRAMS and shutil.which(PROGRAMS[case.tool]) is None:
                continue
            if any(row["round"] == number for row in case.rounds()):
                continue
            row = bench.measure(case, network, number)
            with case.file().open("a") as file:
                print(json.dumps(row), file=file)
            print(*case, f"{row['seconds']:.2f} s, exit {row['exit']}, wrong {row['wrong']}", flush=True)


if __name__ == "__main__":
    main()
