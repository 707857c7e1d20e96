"""The long run of the fuzzing: ``python -m tests.fuzz.run --minutes 60``, or ``scripts/fuzz``.

Readers take turns. Each turn is a process with a seed of its own and limits: 5 s of processor time for a
sample, and 500 MiB more than the process had when it began. A sample is put into a file before it is read, so
that one that kills its process is known too. Hypothesis shrinks what falls. It is kept in
``tests/fuzz/corpus`` and named with its seed.

With ``--engine atheris`` and that library, coverage leads the way to new samples instead of chance.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 5.0  # of processor time, for one sample
BYTES = 500 << 20
TURN_EXAMPLES = 2000
TURN_S = 600  # a process that is not over by then hangs where no signal reaches it
CORPUS = Path(__file__).parent / "corpus"


class TooSlow(BaseException):
    """A sample took longer than ``SECONDS``."""


def main() -> None:
    """Run one turn, or turns until the time is over; the exit code is 1 if something fell."""
    parser = argparse.ArgumentParser(description="Fuzz every reader of bytes from elsewhere.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first turn; the next ones count on")
    parser.add_argument("--reader", action="append", help="only this one; repeatable")
    parser.add_argument("--engine", choices=["hypothesis", "atheris"], default="hypothesis")
    parser.add_argument("--turn", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        _take_turn(options)
    sys.exit(_run_turns(options))


def _run_turns(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    end_s = time.monotonic() + options.minutes * 60
    from tests.fuzz.readers import READERS

    names = options.reader or list(READERS)
    samples: Counter[str] = Counter()
    fallen: dict[str, str] = {}
    turns = 0
    held = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp") / f"fuzz-{os.getpid()}"
    while time.monotonic() < end_s:
        name = names[turns % len(names)]
        left_s = max(1.0, min(end_s - time.monotonic(), TURN_S / 2))
        count, fault = _watch_turn(name, seed + turns, held, options.engine, left_s)
        samples[name] += count
        turns += 1
        if fault:
            digest = hashlib.sha256(held.read_bytes()).hexdigest()[:12]
            place = CORPUS / name / digest
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(held.read_bytes())
            if fallen.setdefault(f"{name} {fault.splitlines()[-1][:100]}", str(place)) == str(place):
                print(f"{name} fell, seed {seed + turns - 1}, sample {place}\n{fault}", flush=True)
        print(
            f"turn {turns}: {name}: {count} samples, {sum(samples.values())} in all, {len(fallen)} fallen",
            flush=True,
        )
    held.unlink(missing_ok=True)
    print(json.dumps({"turns": turns, "samples": dict(samples), "fallen": fallen}, indent=1))
    return 1 if fallen else 0


def _watch_turn(name: str, seed: int, held: Path, engine: str, seconds: float) -> tuple[int, str]:
    """How many samples were read, and how one fell."""
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.run",
        "--turn",
        str(held),
        "--reader",
        name,
        "--seed",
        str(seed),
    ]
    command += ["--engine", engine, "--seconds", str(seconds)]
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    held.write_bytes(b"")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TURN_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return 0, f"it hung for {TURN_S} s"
    counts = [line for line in done.stdout.splitlines() if line.startswith("samples ")]
    count = int(counts[-1].split()[1]) if counts else 0
    if done.returncode == 0:
        return count, ""
    return count, done.stderr[-3000:].strip() or f"it died with {done.returncode}"


def _take_turn(options: argparse.Namespace) -> NoReturn:
    held, name = Path(options.turn), options.reader[0]
    if options.engine == "atheris":
        import atheris  # type: ignore[import-untyped]

        with atheris.instrument_imports(include=["cfetch"]):
            from tests.fuzz.readers import READERS, ROOT
    else:
        from tests.fuzz.readers import READERS, ROOT
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from tests.fuzz.mutations import MOST_BYTES, mutations

    reader = READERS[name]
    for sample in reader.samples:  # what is imported late does not count
        reader.judge(reader.finish(sample))
    own_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (own_bytes + BYTES,) * 2)
    signal.signal(signal.SIGPROF, _stop_sample)
    counted, fallen, end_s = 0, b"", time.monotonic() + options.seconds

    @seed(options.seed)
    @settings(
        max_examples=TURN_EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(mutations(reader.samples, most_bytes=MOST_BYTES))
    def damage(data: bytes) -> None:
        nonlocal counted, fallen
        if time.monotonic() > end_s:
            return
        counted += 1
        if options.engine == "atheris" and counted % 100 == 0:  # it ends the process without a last word
            print("samples", counted, flush=True)
        data = reader.finish(data)
        held.write_bytes(data)
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                reader.judge(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except TooSlow:
            fallen = data
            raise AssertionError(f"more than {SECONDS} s") from None
        except BaseException:
            fallen = data
            raise

    failed = False
    try:
        if options.engine == "atheris":
            import atheris

            atheris.Setup(
                [sys.argv[0], f"-max_total_time={int(min(options.seconds, TURN_S / 4))}"], _bridge(damage)
            )
            atheris.Fuzz()
        else:
            damage()
    except BaseException:
        failed = True
        traceback.print_exc(limit=-6)
        held.write_bytes(fallen)
    print("samples", counted, flush=True)
    shutil.rmtree(ROOT)  # what ends here ends without its own tidying up
    os._exit(1 if failed else 0)


def _bridge(damage: Any) -> Any:
    return damage.hypothesis.fuzz_one_input


def _stop_sample(*_: object) -> NoReturn:
    raise TooSlow


if __name__ == "__main__":
    main()
