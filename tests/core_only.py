"""Runs the core's own tests in a copy of the project that has no plug-ins: ``scripts/test --core``.

The copy has neither ``cfetch/plugins`` nor ``tests/plugins``. The origin that many tests of the core download
from, and the simulated disks and servers, are tools of theirs: these modules are copied beside the tests,
under another name. Test modules that need more than this of a plug-in, by an import or by a verb, are left
out, and counted.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCH = "cfetch.plugins.lab.bench"
TOOL = "tests.origin_tool"
TOOLS = (
    *("child", "content", "faults", "network", "origin", "process", "spec"),
    *("simulation.alarms", "simulation.transport", "simulation.volume"),
)
PLUGINS = ("cfetch.plugins", "tests.plugins")
MARKS = "not needs_plugins and not slow and not cluster"


def list_imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, anywhere in it, with the names that it takes from them."""
    for node in ast.walk(ast.parse(path.read_bytes())):
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


def copy_project(copy: Path) -> None:
    """Make the copy."""
    tools = list_tools()
    pattern = re.compile("|".join(rf"\b{re.escape(module)}\b" for module in sorted(tools, reverse=True)))

    def rename(match: re.Match[str]) -> str:
        return match[0].replace(BENCH, TOOL)

    for file in list_files():
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        if file.parts[0] == "tests" and file.suffix == ".py":
            (copy / file).write_text(pattern.sub(rename, (ROOT / file).read_text("utf-8")), "utf-8")
        else:
            shutil.copy2(ROOT / file, copy / file)
    for module in tools:
        text = (ROOT / Path(*module.split(".")).with_suffix(".py")).read_text("utf-8")
        place = copy / Path(*module.replace(BENCH, TOOL).split(".")).with_suffix(".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        (place.parent / "__init__.py").write_text('"""What tests download from."""\n')
        place.write_text(pattern.sub(rename, text), "utf-8")


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
    with tempfile.TemporaryDirectory(prefix="cfetch-core-") as name:
        copy = Path(name).resolve()
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
