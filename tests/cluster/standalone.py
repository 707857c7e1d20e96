"""A real Spark cluster on loopback: a master, and two workers that Spark takes for two machines.

Speculation puts no copy of a task on the host of the first, so each worker has an address of its own.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark

__all__ = ["Cluster", "children", "descendants"]

PROJECT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
UP_S = 90.0  # for a JVM on a busy machine
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """Runs while its ``with`` block does, with all that it starts; ``url`` is for --spark-master."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: tuple[str, ...] = ("127.0.0.2", "127.0.0.3"),
        cores: int = 2,
        has_cfetch: bool = True,
    ) -> None:
        """``has_cfetch``: the workers find it, and all that it needs, where the driver does."""
        self._folder = folder
        self._hosts = hosts
        self._cores = cores
        self._has_cfetch = has_cfetch
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def __enter__(self) -> "Cluster":
        try:
            master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"]
            self.url = self._start("127.0.0.1", master, r"Starting Spark master at (spark://\S+)")
            for host in self._hosts:
                worker = ["org.apache.spark.deploy.worker.Worker", "--host", host, "-c", str(self._cores)]
                worker += ["-m", "1g", "-d", str(self._folder / host), self.url]
                self._start(host, worker, r"(Successfully registered with master)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.stop(name)

    def stop(self, name: str) -> None:
        """One of them, with what it has started."""
        process = self._processes.pop(name)
        for pid in descendants(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()

    def environment(self) -> dict[str, str]:
        """For a driver."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
        return clean | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(PROJECT),
        }

    def executors(self, host: str) -> list[int]:
        """Process ids of the executors of the worker there."""
        return children(self._processes[host].pid)

    def connect(self) -> str:
        """A Spark Connect server of the cluster; its address, for --spark-master."""
        words = ["--class", CONNECT, "--master", self.url]
        for setting in ("spark.connect.grpc.binding.port=0", "spark.ui.enabled=false", "spark.cores.max=2"):
            words += ["--conf", setting]
        ready = r"Spark Connect server started at: \S+:(\d+)"
        return f"sc://127.0.0.1:{self._run('connect', 'spark-submit', [*words, 'spark-internal'], ready)}"

    def _start(self, host: str, words: list[str], ready: str) -> str:
        return self._run(host, "spark-class", [*words, "--webui-port", "0"], ready)

    def _run(self, name: str, program: str, words: list[str], ready: str) -> str:
        log = self._folder / f"{name}.log"
        host = name if name in self._hosts else "127.0.0.1"
        more = {"SPARK_LOCAL_IP": host, "SPARK_HOME": str(HOME), "SPARK_DAEMON_JAVA_OPTS": SMALL}
        environment = self.environment() | more
        if not self._has_cfetch:
            del environment["PYTHONPATH"]
        with log.open("wb") as out:
            process = self._processes[name] = subprocess.Popen(
                [str(HOME / "bin" / program), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end_s = time.monotonic() + UP_S
        while time.monotonic() < end_s and process.poll() is None:
            found = re.search(ready, log.read_text(errors="replace"))
            if found is not None:
                return found[1]
            time.sleep(0.1)
        raise RuntimeError(f"no Spark at {name}:\n{log.read_text(errors='replace')[-2000:]}")


def children(pid: int) -> list[int]:
    """Processes that it has started and that are there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(status[1]) == pid and status[0] != "Z":
                    found.append(int(entry.name))
    return found


def descendants(pid: int) -> list[int]:
    """The same, and what these have started."""
    return [one for child in children(pid) for one in (child, *descendants(child))]
