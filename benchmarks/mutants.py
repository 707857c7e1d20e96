"""Which small faults of the code no test sees: random mutants by seed, under the tests that reach them.

The mutations are those of cosmic-ray, which is no tool of the project's own: ``pip install cosmic-ray``. The
mutants are written to a copy of the project. Each room's tests run once under coverage, which tells the tests
that reach a line. Then each mutant meets the tests of its line in a process of its own, those that reach the
least code first, until one fails or their time is used up. Prints a line per mutant, then the table of
docs/mutation.md. Usage::

    python benchmarks/mutants.py [--seed 1] [--per-room 80] [--rooms wire engine] [--only FILE:LINE]
                                 [--tests tests/app tests/faults] [--log mutants.jsonl]
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wire", "engine", "storage", "straggler", "timeline")
COPIED = ("cfetch", "tests", "configs", "benchmarks", "docs", "scripts", ".ci", ".github")
TESTS_LIMIT_S = 30.0  # what the tests of one mutant may take without it
# A mutant that hangs is killed, after several times what its tests take on an idle machine.
HANG_FACTOR, HANG_S = 2.0, 15.0
# Loaded before the mutants' processes are forked, so that each starts at once. No plugins: pytest would warn.
HEAVY = ("aiohttp", "msgspec", "numpy", "rich.live", "typer", "yaml", "yarl")


class Mutant(NamedTuple):
    """A change of one file."""

    room: str
    file: str
    line: int
    operator: str
    occurrence: int


class Reach(NamedTuple):
    """What a room's tests reach: (file, line) -> tests; test -> seconds, and how many lines in all."""

    tests_of: dict[tuple[str, int], set[str]]
    seconds: dict[str, float]
    lines: dict[str, int]


# --- which mutants


def skipped_places(tree: ast.Module) -> list[tuple[int, int, int, int]]:
    """The spans of type annotations, where a mutant either does nothing or breaks the import."""
    notes: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            notes.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            notes.append(node.annotation)
    stated = (note for note in notes if note is not None)
    return [(n.lineno, n.col_offset, n.end_lineno or 0, n.end_col_offset or 0) for n in stated]


def list_places(room: str, file: Path, root: Path) -> Iterator[list[Mutant]]:
    """For each place of a file that can be mutated, all its mutants."""
    source = file.read_text()
    skipped = skipped_places(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    places: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if kind.arguments() or "RemoveDecorator" in name:  # without @dataclass nothing can be imported
            continue
        operator = kind()
        spots = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(spots):
            if not any((a, b) <= (line, column) < (c, d) for a, b, c, d in skipped):
                mutant = Mutant(room, str(file.relative_to(root)), line, name, occurrence)
                places[line, column].append(mutant)
    yield from (places[place] for place in sorted(places))


def choose_mutants(room: str, count: int, seed: int, root: Path) -> list[Mutant]:
    """``count`` places of a room, each with one of its mutants; the few that are no Python are left out."""
    dice = random.Random(f"{seed} {room}")
    files = sorted((root / "cfetch" / room).rglob("*.py"))
    places = [place for file in files for place in list_places(room, file, root)]
    chosen = [dice.choice(place) for place in dice.sample(places, min(count, len(places)))]
    return [mutant for mutant in chosen if is_python(mutate_file(mutant, root))]


def is_python(source: str) -> bool:
    """Whether it can be read at all: the ``*`` of a signature is taken for a product."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def mutate_file(mutant: Mutant, root: Path) -> str:
    """The file's text with the mutant in it."""
    operator = plugins.get_operator(mutant.operator)()
    return str(mutate_code((root / mutant.file).read_text(), operator, mutant.occurrence))


# --- which tests


class Measure:
    """A pytest plugin: the test under way is coverage's context, and its seconds are kept."""

    def __init__(self, cover: coverage.Coverage) -> None:
        self._cover = cover
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Name the context; ``|`` would end it."""
        self._cover.switch_context(item.nodeid)
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - begin
            self._cover.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without any mutant proves nothing later."""
        if not report.passed:
            self.failed.add(report.nodeid)


def measure_here(paths: list[str], data: Path) -> int:
    """Run tests under coverage, in this process; what they reach goes to ``data``."""
    cover = coverage.Coverage(data_file=str(data), source=["cfetch"], config_file=False)
    measure = Measure(cover)
    cover.start()
    code = pytest.main([*paths, "-q", "-p", "no:cacheprovider", "-n", "0", "-W", "ignore"], [measure])
    cover.stop()
    cover.save()
    kept = {name: s for name, s in measure.seconds.items() if name not in measure.failed}
    data.with_suffix(".json").write_text(json.dumps(kept))
    return int(code)


def read_reach(data: Path, root: Path) -> Reach:
    """What the tests of a measured room reach."""
    seconds: dict[str, float] = json.loads(data.with_suffix(".json").read_text())
    recorded = coverage.CoverageData(str(data))
    recorded.read()
    tests_of: dict[tuple[str, int], set[str]] = {}
    lines: dict[str, int] = defaultdict(int)
    for file in recorded.measured_files():
        for line, names in recorded.contexts_by_lineno(file).items():
            place = str(Path(file).relative_to(root)), line
            tests_of[place] = {name for name in names if name in seconds}
            for name in tests_of[place]:
                lines[name] += 1
    return Reach(tests_of, seconds, lines)


def find_statement(tree: ast.Module, line: int) -> tuple[range, ast.stmt]:
    """The lines of the smallest statement, or its head, around a line; the module's statement around it."""
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body and line < body[0].lineno else node.end_lineno or 0
            spans.append(range(node.lineno, end + 1))
    outer = next(node for node in tree.body if node.lineno <= line <= (node.end_lineno or 0))
    return min(spans, key=len), outer


def choose_tests(mutant: Mutant, reach: Reach, root: Path, limit_s: float) -> list[str]:
    """The tests of a mutant's line, those that reach the least first, as many as the time allows.

    A line that runs at import has the tests of the lines that use what it defines.
    """
    span, outer = find_statement(ast.parse((root / mutant.file).read_text()), mutant.line)
    tests = set(reach.tests_of.get((mutant.file, mutant.line), ()))
    if not tests:
        tests = {test for line in span for test in reach.tests_of.get((mutant.file, line), ())}
    if not tests:
        targets = [getattr(outer, "target", None), *getattr(outer, "targets", [])]
        names = [*(t.id for t in targets if isinstance(t, ast.Name)), getattr(outer, "name", "")]
        word = re.compile(rf"\b({'|'.join(filter(None, names)) or '$^'})\b")
        for file, line in reach.tests_of:
            own = file == mutant.file and outer.lineno <= line <= (outer.end_lineno or 0)
            if own or (f"/{mutant.room}/" in file and word.search(text_line(root / file, line))):
                tests |= reach.tests_of[file, line]
    chosen, total_s = [], 0.0
    for test in sorted(tests, key=lambda test: (reach.lines[test] + 400 * reach.seconds[test], test)):
        if total_s + reach.seconds[test] <= limit_s:
            chosen.append(test)
            total_s += reach.seconds[test]
    return chosen


def text_line(file: Path, number: int, kept: dict[Path, list[str]] = {}) -> str:  # noqa: B006 - a memory of files
    """One line of a file."""
    if file not in kept:
        kept[file] = file.read_text().splitlines()
    return kept[file][number - 1]


# --- a mutant meets its tests


class Chosen:
    """A pytest plugin: only the chosen tests, in their order; the first that fails is written down."""

    def __init__(self, tests: list[str], verdict: Path) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}
        self._verdict = verdict

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep and sort."""
        items[:] = sorted((i for i in items if i.nodeid in self._rank), key=lambda i: self._rank[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the first failure down."""
        if report.failed and not self._verdict.exists():
            reasons = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
            self._verdict.write_text(f"{report.nodeid}: {''.join(reasons[:1])[:200]}")


def run_tests(tests: list[str], root: Path, limit_s: float) -> str:
    """Run tests in a process of their own: one that fails, ``import`` or ``time``; empty if all pass."""
    verdict = root / "verdict"
    verdict.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        with (root / "output").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        words = [*files, "-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-n", "0"]
        os._exit(int(pytest.main(words, [Chosen(tests, verdict)])))
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            stop_group(child)
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else verdict.read_text() if verdict.exists() else f"import ({code})"
        time.sleep(0.02)
    stop_group(child)
    os.waitpid(child, 0)
    return "time"


def stop_group(child: int) -> None:
    """End what a mutant's process may have left behind."""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def try_mutant(mutant: Mutant, reach: Reach, root: Path, limit_s: float) -> dict[str, Any]:
    """Write a mutant, run its tests, and put the file back."""
    path = root / mutant.file
    original, times = path.read_text(), path.stat()
    mutated = mutate_file(mutant, root)
    tests = choose_tests(mutant, reach, root, limit_s)
    begin = time.monotonic()
    path.write_text(mutated)
    try:
        hang_s = HANG_S + HANG_FACTOR * sum(reach.seconds[test] for test in tests)
        killer = run_tests(tests, root, hang_s) if tests else ""
    finally:
        path.write_text(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that its compiled file stays valid
    changed = [
        (number, old.strip(), new.strip())
        for number, (old, new) in enumerate(zip(original.split("\n"), mutated.split("\n"), strict=False), 1)
        if old != new
    ]
    number, old, new = changed[0] if changed else (mutant.line, "", "")
    return {
        **mutant._asdict(),
        "line": number,
        "old": old,
        "new": new,
        "tests": len(tests),
        "killer": killer,
        "seconds": round(time.monotonic() - begin, 1),
    }


# --- all together


def copy_project(folder: Path) -> Path:
    """A copy that mutants may be written to."""
    root = folder / "project"
    root.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, root)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "cfetch", "tests"], cwd=root, check=True)
    return root


def main() -> None:
    """Measure, mutate, print."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-room", type=int, default=80)
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS))
    parser.add_argument("--only", nargs="+", help="of these mutants, only those at FILE:LINE")
    parser.add_argument("--tests", nargs="+", default=[], help="more tests than the room's own")
    parser.add_argument("--limit", type=float, default=TESTS_LIMIT_S, help="seconds of tests for one mutant")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    root = copy_project(folder)
    os.environ["PYTHONPATH"] = str(root)
    sys.path.insert(0, str(root))
    os.chdir(root)
    for name in HEAVY:
        importlib.import_module(name)
    rows = []
    for room in options.rooms:
        mutants = choose_mutants(room, options.per_room, options.seed, root)
        if options.only:
            mutants = [mutant for mutant in mutants if f"{mutant.file}:{mutant.line}" in options.only]
        data = folder / f"{room}.coverage"
        child = os.fork()
        if child == 0:
            os._exit(measure_here([f"tests/{room}", *options.tests], data))
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) > 1:
            sys.exit(f"the tests of {room} cannot be run")
        reach = read_reach(data, root)
        quickest = sorted(reach.seconds, key=lambda test: reach.seconds[test])[:100]
        if run_tests(quickest, root, options.limit + HANG_S):
            sys.exit(f"the tests of {room} fail without a mutant")
        for mutant in sorted(mutants):
            row = try_mutant(mutant, reach, root, options.limit)
            rows.append(row)
            word = "killed" if row["killer"] else "SURVIVED"
            print(f"{word:8} {row['file']}:{row['line']} {row['old']} -> {row['new']}")
            print(f"         {row['tests']} tests, {row['seconds']} s, {row['killer']}", flush=True)
            if options.log:
                with options.log.open("a") as log:
                    log.write(json.dumps(row) + "\n")
    print("| room | mutants | killed | survived |\n|---|---|---|---|")
    for room in options.rooms:
        own = [row for row in rows if row["room"] == room]
        killed = sum(bool(row["killer"]) for row in own)
        print(f"| `{room}/` | {len(own)} | {killed} | {len(own) - killed} |")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
