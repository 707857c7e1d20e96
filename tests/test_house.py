"""The rules of the house that no linter knows: classes, public names, fast help, one table of options."""

import ast
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from cfetch.base.config.document import load
from cfetch.base.config.settings import KINDS
from cfetch.cli import options
from cfetch.cli.download import download
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec
from tests.needs import case
from tests.syntax import list_nodes, parse

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "cfetch").rglob("*.py"))
NAMES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in MODULES]
WRITTEN_AS_TESTS = ROOT / "cfetch" / "testing"  # suites: names and docstrings there are those of tests
NOT_OURS = {".git", "build", ".hypothesis", ".venv", "__pycache__", "demo-run", "dist"}


def run_cfetch(*arguments, cwd):
    """The command as a user without any settings runs it."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    env |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_modules_were_found():
    """The tests below look at the real package."""
    expected = {"cfetch", "cfetch.app.download", "cfetch.straggler.detector"}
    assert expected <= set(NAMES), "correct ROOT above, or this list if a file has moved"


# About 25 methods are the guide. The ceiling leaves slack above it: fifteen classes stood at 24 or 25, and a
# ceiling that is met by squeezing hides more than it shows.
MOST_METHODS, MOST_ATTRIBUTES = 30, 15
VALUE_TYPES = {"NamedTuple", "Struct", "Protocol", "Event", "Enum"}


def classes_over_budget():
    """Name to (methods, attributes set on ``self``), value types and ports aside."""
    over = {}
    for path in MODULES:
        for node in list_nodes(path):
            if not isinstance(node, ast.ClassDef) or node.decorator_list:
                continue
            bases = {
                part.id if isinstance(part, ast.Name) else part.attr
                for base in node.bases
                for part in ast.walk(base)
                if isinstance(part, ast.Name | ast.Attribute)
            }
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            attributes = {
                target.attr
                for method in methods
                for target in ast.walk(method)
                if isinstance(target, ast.Attribute)
                and isinstance(target.ctx, ast.Store)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            }
            size = (len(methods), len(attributes))
            if not bases & VALUE_TYPES and (size[0] > MOST_METHODS or size[1] > MOST_ATTRIBUTES):
                over[node.name] = size
    return over


def test_classes_keep_their_budget():
    """A class holds one idea: at most 30 methods and 15 attributes."""
    assert classes_over_budget() == {}, (
        "(methods, attributes): split each class into the two things that it is"
    )


# A record and the thing that it tells of; a row of the Python interface and the entry that is made of it.
TWO_OF_A_NAME = {"Digest", "Entry"}


def test_a_class_name_has_one_meaning():
    """Whoever reads a name in an import, or searches for it, meets one class; private ones do not count."""
    counts = Counter(
        node.name
        for path in MODULES
        for node in parse(path).body  # one in a class has its name, too
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twice = {name for name, count in counts.items() if count > 1} - TWO_OF_A_NAME
    assert twice == set(), "call the later of these classes after what only it is"


EMPTY_NAMES = {"at", "found", "one", "told"}  # a variable is called after what it holds

IRREGULAR = {
    "begun", "broken", "brought", "built", "chosen", "dealt", "drawn", "found", "frozen", "given", "gone",
    "heard", "held", "kept", "known", "left", "lost", "made", "said", "seen", "sent", "shown", "stood",
    "taken", "thrown", "told", "written",
}  # fmt: skip
PARTICIPLE = re.compile(
    r"_*(?!need$|feed$|seed$|speed$|shed$|embed$)([a-z]+ed|" + "|".join(sorted(IRREGULAR)) + ")"
)


def names_of(select):
    """The names for which ``select(node)`` gives one, as ``path:line name``."""
    return [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)} {name}"
        for path in MODULES
        if path.parent != WRITTEN_AS_TESTS
        for node in list_nodes(path)
        if (name := select(node))
    ]


def empty_name(node):
    """A variable or a parameter that is called by a word which says nothing."""
    name = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
    elif isinstance(node, ast.arg):
        name = node.arg
    return name if name in EMPTY_NAMES else None


def participle(node):
    """A function, no property, that is called by a participle alone: a name is a verb with an object."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
        return None
    return node.name if PARTICIPLE.fullmatch(node.name) else None


@pytest.mark.parametrize("select", [empty_name, participle], ids=["variables", "functions"])
def test_names_say_what_they_name(select):
    """No variable is called ``one``, ``found``, ``at`` or ``told``, no function by a participle alone."""
    assert names_of(select) == [], (
        "call a variable after what it holds, and a function by a verb and its object"
    )


def test_the_rules_of_names_see_what_they_look_for():
    """Each finds its case, and leaves a verb, a property and a keyword alone."""
    code = (
        "def f(one): pass\n"
        "def _told(): found = 1\n"
        "def need(): f(at=2)\n"
        "class A:\n    @property\n    def settled(self): return self.one\n"
    )
    nodes = [*ast.walk(ast.parse(code + "def g(): 'See f.'\ndef h(): 'Seeds all.'"))]
    assert sorted(name for node in nodes if (name := empty_name(node))) == ["found", "one"]
    assert [name for node in nodes if (name := participle(node))] == ["_told"]
    assert [name for node in nodes if (name := fragment(node))] == ["g: See"]


FRAGMENT = re.compile(
    r"(?:And|As|Beside|But|By|For|From|In|Of|On|Or|See|So|Soon|Than|To|Under|Until|With|Without)\b"
)


def fragment(node):
    """A docstring whose first word shows that it begins in the middle of a sentence."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    begins = FRAGMENT.match(ast.get_docstring(node) or "")
    return f"{getattr(node, 'name', 'module')}: {begins[0]}" if begins else None


def test_docstrings_begin_with_a_sentence():
    """They are read where they stand alone: in an editor's tooltip, or in a listing of a module."""
    assert names_of(fragment) == [], "begin each docstring with a whole sentence"


def find_faults(path, name):
    """What is wrong with the docstring and the list of names of a module."""
    module = importlib.import_module(name)
    if not module.__doc__:
        yield "it has no docstring: begin the file with one sentence about what it is for"
    public = getattr(module, "__all__", [])
    if path.name != "__init__.py" and public:
        yield "remove __all__: only a door lists names"
    if list(public) != sorted(
        set(public), key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    ):
        yield "sort __all__: constants, classes, functions"
    if gone := [name for name in public if not hasattr(module, name)]:
        yield f"remove {gone} from __all__, or define them"


def test_modules_say_what_they_are():
    """Each has a docstring. Only a door lists what it offers: names that exist, sorted."""
    own = dict(zip(NAMES, MODULES, strict=True))
    if "cfetch.plugins" not in own:
        del own["cfetch.testing.feed"]  # a suite for a plug-in
    faults = {name: said for name, path in own.items() if (said := list(find_faults(path, name)))}
    assert faults == {}


def test_the_faults_of_a_module_are_found(monkeypatch):
    """Each of the four, in a module that has all."""
    module = ModuleType("odd")
    vars(module)["__all__"] = ["b", "a"]
    monkeypatch.setitem(sys.modules, "odd", module)
    faults = list(find_faults(Path("odd.py"), "odd"))
    assert [said.split()[0] for said in faults] == ["it", "remove", "sort", "remove"]


@pytest.mark.needs_plugins
def test_a_function_that_only_its_module_uses_is_private():
    """Its name begins with an underscore: whoever changes it need not look elsewhere."""
    sources = [
        path for top in ("cfetch", "tests", "benchmarks", "docs") for path in (ROOT / top).rglob("*.*")
    ]
    words = {
        path: set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        for path in [*sources, ROOT / "pyproject.toml", ROOT / "README.md"]
        if path.suffix in {".py", ".md", ".toml"}
    }
    users = Counter(word for used in words.values() for word in used)
    lonely = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in MODULES
        if path.parent
        not in (ROOT / "cfetch" / "cli", WRITTEN_AS_TESTS)  # commands; for other people's tests
        for node in parse(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not node.name.startswith("_") and not node.decorator_list and users[node.name] == 1
    ]
    assert lonely == [], "begin these names with an underscore, or delete what nobody uses"


ROOMS = sorted(path.parent for path in (ROOT / "cfetch").glob("*/**/__init__.py"))


def door_of(room):
    """The text over a room's door."""
    return ast.get_docstring(parse(room / "__init__.py")) or ""


def paths_in(text):
    """All words of a text that are paths: files by their endings, folders by the slash at their end."""
    files = re.findall(r"(?<![\w/.<>*-])(?:[\w.-]+/)*[\w-]+\.(?:py|md|yaml)\b", text)
    folders = re.findall(r"(?<![\w/.<>*-])(?:[\w-]+/)+(?![\w<*])", text)
    return {*files, *folders}


@pytest.mark.needs_plugins
def test_every_room_has_a_door():
    """Its ``__init__.py`` says what the room is for, how to read it, and what holds when it fails."""
    lines = {str(room.relative_to(ROOT / "cfetch")): len(door_of(room).splitlines()) for room in ROOMS}
    assert {"wire", "plugins/follow/server"} <= lines.keys()
    wrong = {room for room, count in lines.items() if not 10 <= count <= 60}
    assert wrong == set(), (
        "write ten to sixty lines over these doors (__init__.py): idea, order, failures, changes"
    )


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT / "cfetch")))
def test_a_door_names_files_that_exist(room):
    """They are the room's own, or stand below cfetch/ or the project's root."""
    gone = missing(paths_in(door_of(room)), room, ROOT / "cfetch", ROOT)
    assert gone == [], (
        f"correct these paths in {room / '__init__.py'}: they begin at the room, cfetch/ or the root"
    )


def test_a_door_names_every_file_of_its_room():
    """A new file gets its line: otherwise the reading order leaves it out, and nobody finds it."""
    unnamed = [
        str(path.relative_to(ROOT / "cfetch"))
        for room in ROOMS
        for path in sorted(room.glob("*.py"))
        if path.name not in {"__init__.py", *(Path(name).name for name in paths_in(door_of(room)))}
    ]
    assert unnamed == [], "add a line for each of these files to its room's __init__.py"


@pytest.mark.needs_plugins
def test_the_architecture_names_files_that_exist():
    """It is short, and a file that moves breaks it loudly; what lies at a destination is no file of ours."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = len(text.split())
    assert 600 < words < 2000, (
        f"docs/architecture.md has {words} words: move what belongs to one room to its door"
    )
    named = {path for path in paths_in(text) if not path.startswith(("receipts/", "timeline/archive/"))}
    assert {"cli/", "engine/batches/", "wire/judge.py", "base/secret.py"} <= named
    gone = missing(named, ROOT / "cfetch", ROOT, ROOT / "docs")
    assert gone == [], "correct these paths in docs/architecture.md"


def test_news_are_lists_of_lines():
    """Each file of changelog/unreleased/ is a list, so that a release can put them one below the other."""
    folder = ROOT / "changelog" / "unreleased"
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    wrong = [
        name
        for name, text in texts.items()
        if not text.startswith("- ")
        or not text.endswith("\n")
        or any(not line.startswith(("- ", "  ")) for line in text.splitlines())
    ]
    assert wrong == [], "write one '- ' line for each effect that a user notices, and end with a line break"


def test_a_release_gathers_the_news(tmp_path):
    """They go below the heading of what is not released, in the order of their names, and their files go."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/news", tmp_path / "scripts/news")
    (tmp_path / "changelog/unreleased").mkdir(parents=True)
    for name in ("b", "a"):
        (tmp_path / f"changelog/unreleased/{name}.md").write_text(f"- {name}\n")
    log = tmp_path / "CHANGELOG.md"
    log.write_text("# Changes\n\n## [Unreleased]\n\n- old\n")
    done = subprocess.run(
        ["/bin/sh", tmp_path / "scripts/news"], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert log.read_text() == "# Changes\n\n## [Unreleased]\n\n### News\n\n- a\n- b\n\n- old\n"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["CHANGELOG.md", "news"]


def missing(paths, *folders):
    """Those that stand in none of the folders."""
    return sorted(path for path in paths if not any((folder / path).exists() for folder in folders))


def test_nothing_names_a_package_registry():
    """Where packages come from is the machine's business, not the project's."""
    hosts = re.compile(
        rb"py" + rb"pi\.|python" + rb"hosted|index-" + rb"url|arti" + rb"factory", re.IGNORECASE
    )
    texts = {path: path.read_bytes() for path in project_files()}
    assert ROOT / "pyproject.toml" in texts
    named = [str(path) for path, text in texts.items() if hosts.search(text)]
    assert named == [], "remove the registry's address from these files: each machine configures its own"


def project_files():
    """Every file but those that tools make."""
    for folder, below, files in os.walk(ROOT):
        below[:] = [one for one in below if one not in NOT_OURS and not one.endswith(("_cache", ".egg-info"))]
        yield from (Path(folder, file) for file in files)


def find_loaded_modules(arguments, cwd):
    """The modules that the command has loaded when it ends; it must end well."""
    code = (
        f"import atexit, json, sys; sys.argv = ['cfetch', *{arguments!r}]\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr, flush=True))\n"
        "from cfetch.__main__ import main\n"
        "main()\n"
    )
    done = run_cfetch("-c", code, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["download", "--help"],
        case(["feed", "serve", "--help"], name="feed serve --help"),
        case(["metrics", "load", "--help"], name="metrics load --help"),
    ],
    ids=" ".join,
)
def test_help_waits_for_no_heavy_library(arguments, tmp_path):
    """What only a run needs is imported by a run: help answers at once."""
    loaded = find_loaded_modules(arguments, tmp_path)
    assert "cfetch.cli.app" in loaded
    heavy = {
        "aiohttp",
        "asyncio",
        "numpy",
        "opentelemetry",
        "pandas",
        "pyarrow",
        "pyspark",
        "rich.live",
        "rich.progress",
        "yaml",
        "yarl",
    }
    assert loaded & heavy == set(), "import these inside the function that needs them"


# With mitigation, a busy machine may make a download so slow that it is judged, which needs numpy.
DOWNLOAD = ["download", "list", "--to", "to", "--quiet", "--no-mitigation"]


def test_the_policy_is_loaded_without_numpy(tmp_path):
    """The other half of the test below, which runs without mitigation."""
    code = "import sys, cfetch.straggler.policy, cfetch.straggler.adaptive; sys.exit('numpy' in sys.modules)"
    done = run_cfetch("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr or "import numpy inside the function that needs it"


def test_a_child_process_loads_no_reader_of_manifests(tmp_path):
    """Its parent has read the manifest; a task of Spark starts in the same way."""
    code = (
        "import sys, cfetch.tasks.processes.child\n"
        "sys.exit(str({name for name in sys.modules if name.startswith('cfetch.manifest.formats.')}))"
    )
    loaded = run_cfetch("-c", code, cwd=tmp_path).stderr.strip()
    why = "import readers where a manifest is opened, not at the top of a module that tasks load"
    assert loaded == "set()", why


def test_the_parent_of_several_processes_loads_nothing_that_downloads(tmp_path):
    """Its children bring the files; to load the wire and the engine takes as long as 1,000 small files."""
    with OriginProcess(OriginSpec(groups=(Group("g-", 4, 1000),))) as origin:
        urls = "".join(f"{origin.url}g-{number:07}.bin\n" for number in range(4))
        (tmp_path / "list").write_text(urls)
        loaded = find_loaded_modules([*DOWNLOAD, "--processes", "2"], tmp_path)
    assert "cfetch.tasks.processes.engine" in loaded
    unused = {"aiohttp", "cfetch.engine.pool", "cfetch.tasks.shares.task", "cfetch.wire.http"}
    assert loaded & unused == set(), (
        "import these in the child's code only, or inside the function that needs them"
    )


def test_a_small_download_imports_only_what_it_uses(tmp_path):
    """No tables, no numbers in bulk, no Spark, no other verbs; if all files are in place, no connections."""
    with OriginProcess(OriginSpec(groups=(Group("g-", 3, 1000),))) as origin:
        urls = "".join(f"{origin.url}g-{number:07}.bin\n" for number in range(3))
        (tmp_path / "list").write_text(urls)
        loaded = find_loaded_modules(DOWNLOAD, tmp_path)
        again = find_loaded_modules(DOWNLOAD, tmp_path)
    assert {"cfetch.engine.pool", "aiohttp"} <= loaded
    unused = {
        *("numpy", "obstore", "opentelemetry", "pandas", "pyarrow", "pyspark", "rich.console", "yaml"),
        *(
            "cfetch.plugins.lab.bench",
            "cfetch.plugins.lab.verb_bench",
            "cfetch.cli.plan",
            "cfetch.engine.batches.batched",
        ),
        *(
            "cfetch.plugins.follow",
            "cfetch.tasks.hub.server",
            "cfetch.engine.placement.placer",
            "cfetch.tasks.processes.engine",
        ),
        *(
            "cfetch.plugins.spark.open_shares",
            "cfetch.storage.buckets.object_store",
            "cfetch.plugins.lab.tuning",
        ),
    }
    assert loaded & unused == set(), "import these inside the function that needs them"
    for_others = {
        "aiohttp",
        "yarl",
        "email.utils",
        "html.parser",
        "http.cookiejar",
        "urllib.request",
        "xml.sax",
    }
    assert again & (unused | for_others) == set(), (
        "a run with nothing to fetch needs none of these: import later"
    )


@pytest.mark.parametrize(
    "word", ["report", "metrics", "downlod", "--version", "-h"], ids=lambda word: word.strip("-")
)
@pytest.mark.needs_plugins
def test_a_verb_is_found_whichever_are_loaded(word, tmp_path):
    """Only the one that is asked for is loaded; who asks for none gets all of them."""
    done = run_cfetch("-m", "cfetch", word, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert {
        "report": "METRICS",
        "metrics": "load",
        "downlod": "did you mean 'download'?",
        "--version": "Python",
        "-h": "verify",
    }[word] in said


def test_every_setting_has_a_flag_and_a_panel():
    """The table of options is the command line: neither lacks what the other has; help has room for all."""
    parameters = inspect.signature(download).parameters
    given = {name: parameters[name].annotation.__metadata__[0] for name in KINDS}
    flags = {name: (option.default, *option.param_decls)[0].split("/")[0] for name, option in given.items()}
    expected = {name: "--" + name.replace("_", "-") for name in KINDS}
    assert flags == expected, "name the flag after its key in cfetch/base/config/option_table.py"
    assert parameters.keys() - KINDS.keys() == {"manifests", "config", "show_config", "pairs"}
    assert options._PANEL_OF.keys() == KINDS.keys(), "add the option to a panel in cfetch/cli/options.py"
    in_panels = sum(len(names) for names in options.PANELS.values())
    assert in_panels == len(KINDS), (
        "an option stands in two panels of cfetch/cli/options.py: remove it from one"
    )


def test_show_config_reads_back_through_the_command_line(tmp_path):
    """Its output, given as --config, shows the same values; only their origin has changed."""
    flags = ["--to", "a #b: c", "--padding", "10ms", "--quantile", "0.12345678", "--no-mitigation", "--quiet"]
    first = run_cfetch("-m", "cfetch", "download", "x", *flags, "--show-config", cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert re.search(r"^padding: 0\.01s +# --padding$", first.stdout, re.MULTILINE)
    (tmp_path / "one.yaml").write_text(first.stdout)
    second = run_cfetch(
        "-m", "cfetch", "download", "x", "--config", "one.yaml", "--show-config", cwd=tmp_path
    )
    (tmp_path / "two.yaml").write_text(second.stdout)
    shown = load(tmp_path / "one.yaml")
    assert load(tmp_path / "two.yaml") == shown
    assert (shown["to"], shown["mitigation"], shown["quiet"]) == ("a #b: c", "false", "true")
    assert re.search(r"^padding: 0\.01s +# one\.yaml$", second.stdout, re.MULTILINE)


@pytest.fixture
def bare_machine(tmp_path):
    """Runs a copy of scripts/setup, in a folder with a space, with nothing on PATH but this one python3."""

    def run(python3, *arguments):
        project, tools = tmp_path / "a project", tmp_path / "bin"
        (project / "scripts").mkdir(parents=True)
        tools.mkdir()
        for name in ("scripts/setup", "pyproject.toml"):
            shutil.copy(ROOT / name, project / name)
        for tool in ("cat", "cksum", "dirname"):
            (tools / tool).symlink_to(shutil.which(tool))
        if python3 is not None:
            (tools / "python3").write_text(f"#!/bin/sh\n{python3}\n")
            (tools / "python3").chmod(0o755)
        return subprocess.run(
            ["/bin/sh", project / "scripts/setup", *arguments],
            cwd=tmp_path, env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("python3", "said"),
    [
        (None, "no Python 3.11 or newer on PATH"),
        ("exit 1", "no Python 3.11 or newer on PATH"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "apt-get install python3-venv"),
    ],
    ids=["none", "too old", "no ensurepip"],
)
def test_setup_says_what_the_machine_lacks(bare_machine, python3, said):
    """Without a usable Python, set-up ends at once with one line that tells what to install."""
    done = bare_machine(python3)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said", "package"),
    [((), "about two minutes", "--editable .[dev]"), (("--plain",), "half a minute", "--editable .")],
    ids=["all", "plain"],
)
def test_setup_says_how_long_it_takes_and_keeps_pip_out_of_a_log(
    arguments, said, package, bare_machine, tmp_path
):
    """Off a terminal pip is told to be quiet, and someone who waits has been told for how long.

    For the demo it installs no tools, and leaves those to a later set-up.
    """
    pip = r'printf "#!/bin/sh\necho \"\$*\" >>../pip\n" >.venv/bin/python; /bin/chmod +x .venv/bin/python'
    done = bare_machine(f'case "$*" in *"-m venv"*) /bin/mkdir -p .venv/bin; {pip};; esac', *arguments)
    assert (done.returncode, done.stdout) == (0, "")
    assert said in done.stderr
    (install,) = [line for line in (tmp_path / "pip").read_text().splitlines() if "pip install" in line]
    assert "-m pip install --quiet" in install
    assert install.endswith(f" {package}")
    assert (tmp_path / "a project/.venv/.set-up-for").exists() == (not arguments)


@pytest.mark.parametrize(("failures", "code"), [(2, 0), (3, 1)])
def test_setup_tries_again_when_a_download_is_cut(failures, code, bare_machine, tmp_path):
    """Three times in all: of two hundred packages one may come in pieces."""
    stub = tmp_path / "stub"
    is_over = f"[ $(/usr/bin/wc -l <../pip) -gt {failures} ]"
    stub.write_text(f'#!/bin/sh\ncase "$*" in *"pip install"*) echo again >>../pip; {is_over};; esac\n')
    stub.chmod(0o755)
    done = bare_machine(
        'case "$*" in *"-m venv"*) /bin/mkdir -p .venv/bin; /bin/cp ../stub .venv/bin/python;; esac'
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "pip").read_text() == "again\n" * 3
    assert (tmp_path / "a project/.venv/.set-up-for").exists() == (code == 0)


@pytest.mark.parametrize("mark", ["<" * 7 + " HEAD", ">" * 7 + " 4e28e507", "|" * 7 + " base", "=" * 7])
def test_the_check_refuses_the_markers_of_a_merge(mark, tmp_path):
    """A line of a conflict in a tracked file stops the check; the underline of a heading does not."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/check", tmp_path / "scripts/check")
    (tmp_path / "scripts/setup").write_text("#!/bin/sh\n")
    (tmp_path / "scripts/setup").chmod(0o755)
    (tmp_path / "page.md").write_text(f"Title\n{mark}\n")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=60)
    done = subprocess.run(
        ["/bin/sh", "scripts/check"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    is_marker = not mark.startswith("=")
    assert done.returncode != 0  # there is no linter in this folder
    assert (f"page.md:2:{mark}" in done.stdout) is is_marker
    assert ("markers of a merge" in done.stderr) is is_marker
