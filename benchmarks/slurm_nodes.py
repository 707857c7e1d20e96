"""``cfetch plan run --together`` under SLURM: four nodes on this machine, and jobs that are harmed.

Starts munged, slurmctld and a slurmd for each node, on free ports and in a temporary folder, and stops them
at the end. Each event hits a plan of its own in mid-run; afterwards all files are compared with the served
ones. Needs root and Debian's ``slurm-wlm``, and nginx. Usage::

    python benchmarks/slurm_nodes.py [--only EVENT]

Exit code 1 if a file is missing or wrong, or a plan is not completed.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from cfetch.plugins.lab.bench.content import Group, count_right
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.static_server import static_server

NODES = 4
CONNECTION_BPS = 400_000  # slow, so that there is time to harm a run
EVENT_S = 6.0  # after the start of a job; a run that nothing happens to takes 9 s
PATIENCE_S = 400.0  # SLURM waits two minutes before it starts a requeued job
SCENARIO = Scenario(name="slurm", groups=(Group("s", 2000, 64 << 10), Group("l", 20, 8 << 20)))
COMMAND = ("plan", "run", "--all", "--together", "--quiet", "--json")
CFETCH = str(Path(sys.executable).parent / "cfetch")
_CONFIGURATION = """
ClusterName=cfetch
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
KillWait=10
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP
"""


class Site(NamedTuple):
    """What an event needs. ``to``: the plan's destination."""

    folder: Path
    to: Path
    environment: Mapping[str, str]

    def run(self, *words: str, wait: bool = True) -> "subprocess.Popen[bytes]":
        """Run a command of SLURM or cfetch, to its end unless ``wait`` is false."""
        with (self.folder / "commands.log").open("ab") as log:
            child = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)
        if wait:
            child.wait(PATIENCE_S)
        return child

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start a job step of all nodes, and return after ``EVENT_S``."""
        child = self.run("srun", "-N", str(NODES), *options, *self.job, wait=False)
        time.sleep(EVENT_S)
        return child

    def submit(self, text: str, *options: str) -> str:
        """Submit a script of one line; the job's number."""
        script = self.folder / "job.sh"
        script.write_text(f"#!/bin/sh\n{text}\n")
        words = ("sbatch", "--parsable", *options, "-o", f"{self.folder}/job.log", str(script))
        return (
            subprocess.run(words, env=self.environment, check=True, capture_output=True)
            .stdout.decode()
            .strip()
        )

    def wait_for(self, job: str) -> None:
        """Wait until SLURM has no such job any more."""
        end_s = time.monotonic() + PATIENCE_S
        words = ("squeue", "--noheader", "--jobs", job)
        while subprocess.run(words, env=self.environment, capture_output=True, check=False).stdout.strip():
            if time.monotonic() > end_s:
                raise TimeoutError(f"job {job} does not end")
            time.sleep(0.5)

    @property
    def job(self) -> tuple[str, ...]:
        """The command of each node."""
        return (CFETCH, *COMMAND, "--to", str(self.to))


def bring(site: Site) -> str:
    """Nothing happens."""
    return f"exit code {site.run('srun', '-N', str(NODES), *site.job).wait()}"


def cancel(site: Site) -> str:
    """The job is cancelled, and started again."""
    child = site.start("--job-name", "victim")
    site.run("scancel", "--name", "victim")
    return f"exit code {child.wait(PATIENCE_S)}; again: {bring(site)}"


def kill(site: Site) -> str:
    """One node's process is killed."""
    child = site.start()
    mains = subprocess.run(["pgrep", "-f", f"cfetch plan run .*{site.to}"], capture_output=True, check=True)
    parents = [pid for pid in mains.stdout.decode().split() if _name_of(_parent_of(pid)) == "slurmstepd"]
    os.kill(int(parents[0]), 9)
    return f"exit code {child.wait(PATIENCE_S)}"


def lose_node(site: Site) -> str:
    """SLURM takes a node down; the step goes on without it (``srun --no-kill``)."""
    child = site.start("--no-kill")
    site.run("scontrol", "update", "nodename=n2", "state=down", "reason=trial")
    code = child.wait(PATIENCE_S)
    site.run("scontrol", "update", "nodename=n2", "state=resume")
    return f"exit code {code}"


def requeue(site: Site) -> str:
    """A batch job is requeued, as for preemption."""
    job = site.submit(f"srun {' '.join(site.job)}", "-N", str(NODES), "--requeue")
    time.sleep(EVENT_S)
    site.run("scontrol", "requeue", job)
    site.wait_for(job)
    return "one job, two starts"


def array(site: Site) -> str:
    """Six jobs of an array, three at a time."""
    site.wait_for(site.submit(" ".join(site.job), "--array", "0-5%3"))
    return "six jobs"


EVENTS: tuple[Callable[[Site], str], ...] = (bring, cancel, kill, lose_node, requeue, array)


def main() -> int:
    """Print a row for each event."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=[event.__name__ for event in EVENTS])
    only = parser.parse_args().only
    broken = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cfetch-slurm-")))
        server = stack.enter_context(static_server(SCENARIO, folder, connection_bps=CONNECTION_BPS))
        (folder / "m.json").write_bytes(SCENARIO.manifest(server.url))
        environment = stack.enter_context(_cluster(folder))
        print("| event | SLURM says | files right | plan | s |\n|---|---|---|---|---|")
        for event in EVENTS:
            if only not in (None, event.__name__):
                continue
            site = Site(folder, folder / event.__name__, environment)
            site.run(CFETCH, "plan", "schedule", str(folder / "m.json"), "--to", str(site.to))
            start_s = time.monotonic()
            said = event(site)
            took_s = time.monotonic() - start_s
            there = [name for name in SCENARIO.names if (site.to / name).exists()]
            right = count_right(site.to, there, SCENARIO.files)
            state = _state_of(site)
            broken += right != len(SCENARIO.names) or state != "completed"
            row = (
                f"{_describe(event)} | {said} | {right:,} of {len(SCENARIO.names):,} | {state} | {took_s:.0f}"
            )
            print(f"| {row} |", flush=True)
    return int(broken > 0)


def _describe(event: Callable[[Site], str]) -> str:
    return (event.__doc__ or "").strip().rstrip(".")


def _state_of(site: Site) -> str:
    """The state of the only download on the site's timeline."""
    words = [CFETCH, "plan", "list", "--json", "--to", str(site.to)]
    text = subprocess.run(words, capture_output=True, check=True).stdout
    (plan,) = (plan for plan in json.loads(text)["plans"] if plan["action"] == "download")
    return str(plan["state"])


@contextmanager
def _cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster; yields the environment in which SLURM's commands find it."""
    for program in ("munged", "slurmctld", "slurmd", "srun"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed (apt-get install slurm-wlm)")
    folder.chmod(0o755)  # munge refuses a socket that its clients could not reach
    ports = _free_ports(NODES + 1)
    host = socket.gethostname()
    lines = [
        f"NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[n]} CPUs=2" for n in _numbers()
    ]
    text = _CONFIGURATION.format(folder=folder, host=host, ports=ports, nodes="\n".join(lines))
    (folder / "slurm.conf").write_text(text)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "seed", "log")]
    environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf"}
    daemons = [["munged", "-F", "--force", f"--socket={folder}/munge.socket", *munge], ["slurmctld", "-D"]]
    daemons += [["slurmd", "-D", "-N", f"n{n}"] for n in _numbers()]
    children = []
    try:
        for words in daemons:
            with (folder / f"{words[0]}.out").open("ab") as log:
                children.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
            time.sleep(1.0)
        yield environment
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait(30.0)


def _numbers() -> range:
    return range(1, NODES + 1)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def _parent_of(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


def _name_of(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


if __name__ == "__main__":
    sys.exit(main())
