"""Runs the core's own tests in a copy of the project that has no plug-ins: ``scripts/test --core``.

The copy has neither ``cfetch/plugins`` nor ``tests/plugins``. The origin that many tests of the core download
from, and the simulated disks and servers, are tools of theirs: these modules are copied beside the tests,
under another name. Test modules that need more than this of a plug-in, by an import or by a verb, are left
out, and counted.

The copy stays in ``build/``, and a file that is as before is not written again: so the bytecode of the last
run, with the asserts that pytest has rewritten, is still valid. It took a tenth of a run to make it anew, and
a twentieth of one to search all modules for constants in each process, as Hypothesis does.
"""

import ast
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCH = "cfetch.plugins.lab.bench"
TOOL = "tests.origin_tool"
KEPT = {"__pycache__", ".hypothesis"}
TOOLS = (
    *("child", "content", "faults", "network", "origin", "process", "spec"),
    *("simulation.alarms", "simulation.transport", "simulation.volume"),
)
PLUGINS = ("cfetch.plugins", "tests.plugins")
MARKS = "not needs_plugins and not slow and not cluster"


def _list_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Without the expressions, which are most of a tree."""
    left = [tree]
    while left:
        yield (node := left.pop())
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, part, ())


def list_imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, anywhere in it, with the names that it takes from them."""
    for node in _list_statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def list_files() -> list[Path]:
    """The project's files without those of plug-ins, relative to its root."""
    text = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    files = map(Path, filter(None, text.split("\0")))
    return [file for file in files if file.parts[1:2] != ("plugins",) and (ROOT / file).is_file()]


def list_tools() -> set[str]:
    """The modules of the origin: those that its parts import of their own room."""
    found: set[str] = set()
    left = [f"{BENCH}.{name}" for name in TOOLS]
    while left:
        module = left.pop()
        path = ROOT / Path(*module.split(".")).with_suffix(".py")
        if module not in found and path.is_file():
            found.add(module)
            left += [name for name in list_imports(path) if name.startswith(f"{BENCH}.")]
    return found


def write(path: Path, data: bytes) -> Path:
    """Write a file, unless it has these bytes already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)
    return path


def copy_project(copy: Path) -> None:
    """Make the copy, or bring it up to date."""
    written: set[Path] = set()
    tools = list_tools()
    pattern = re.compile("|".join(rf"\b{re.escape(module)}\b" for module in sorted(tools, reverse=True)))

    def rename(match: re.Match[str]) -> str:
        return match[0].replace(BENCH, TOOL)

    for file in list_files():
        data = (ROOT / file).read_bytes()
        if file.parts[0] == "tests" and file.suffix == ".py":
            data = pattern.sub(rename, data.decode()).encode()
        written.add(write(copy / file, data))
        shutil.copymode(ROOT / file, copy / file)
    for module in tools:
        text = (ROOT / Path(*module.split(".")).with_suffix(".py")).read_text("utf-8")
        place = copy / Path(*module.replace(BENCH, TOOL).split(".")).with_suffix(".py")
        written.add(write(place.parent / "__init__.py", b'"""What tests download from."""\n'))
        written.add(write(place, pattern.sub(rename, text).encode()))
    remove_others(copy, written)


def remove_others(copy: Path, written: set[Path]) -> None:
    """Remove what an earlier run has left, but for bytecode and what Hypothesis has read in the modules."""
    folders = {folder for path in written for folder in path.parents}
    for path in sorted(copy.rglob("*"), reverse=True):
        if path in written or path in folders or KEPT & set(path.relative_to(copy).parts):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextmanager
def open_copy() -> Iterator[Path]:
    """The directory of the copy; while another run has that one, it is one that does not stay."""
    copy = ROOT / "build" / "core"
    copy.mkdir(parents=True, exist_ok=True)
    with (ROOT / "build" / "core.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with tempfile.TemporaryDirectory(prefix="cfetch-core-") as name:
                yield Path(name).resolve()
        else:
            yield copy.resolve()


def find_left_out(copy: Path) -> list[Path]:
    """The test modules of the copy that need plug-ins, by themselves or by what they import of the tests."""
    imports = {
        ".".join(path.relative_to(copy).with_suffix("").parts).removesuffix(".__init__"): set(
            list_imports(path)
        )
        for path in (copy / "tests").rglob("*.py")
    }
    needy = {name for name, names in imports.items() if any(each.startswith(PLUGINS) for each in names)}
    while more := {name for name, names in imports.items() if names & needy} - needy:
        needy |= more
    files = (copy / Path(*name.split(".")).with_suffix(".py") for name in needy)
    return sorted(path for path in files if path.name.startswith("test_"))


def main() -> int:
    """Run pytest in a copy; its exit code."""
    with open_copy() as copy:
        copy_project(copy)
        left_out = find_left_out(copy)
        assert not (copy / "cfetch" / "plugins").exists()
        print(f"{len(left_out)} test modules of the core need plug-ins and are left out", flush=True)
        for path in left_out:
            path.unlink()
        env = os.environ | {"PYTHONPATH": str(copy)}
        words = sys.argv[1:]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", MARKS, *words],
            cwd=copy, env=env, check=False,
        ).returncode  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
