"""The output of ``cfetch doctor``: a document for machines, and lines for people and for bug reports."""

import textwrap
from collections.abc import Iterable, Iterator

import msgspec

from cfetch.show.format import count, duration, plural, size

COLUMNS = 79  # as a terminal has them, and as a page of bug reports shows them without a scroll bar
_INDENT = 16


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A library that cfetch can use. ``version`` None: it is not installed. ``needs``: such as ``>=3.14.4``.

    ``fits`` None: the version, or what is needed, is in a form that cfetch does not compare.
    """

    name: str
    version: str | None
    needs: str
    fits: bool | None


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """An extra of cfetch: its libraries, and the requirements that this installation does not meet."""

    name: str
    packages: list[Package]
    lacks: list[str]


class PlugIn(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in of another distribution. ``fault``: why it does not load."""

    kind: str
    name: str
    distribution: str
    fault: str | None


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """Versions. ``libraries`` None: this copy of cfetch has no metadata, as a tree of sources that is run."""

    cfetch: str
    place: str
    python: str
    executable: str
    system: str
    tls: str
    has_plugins: bool
    libraries: list[Package] | None
    extras: list[Extra]
    plugins: list[PlugIn]


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """What this process may use. None: there is no limit, or the system does not say.

    ``downloads``: how many at a time the most open files are enough for. ``memory_limit``: of the container
    or of the process.
    """

    cores: int
    cores_usable: int
    memory_bytes: int | None
    memory_free_bytes: int | None
    memory_limit_bytes: int | None
    open_files: int | None
    most_open_files: int | None
    downloads: int | None
    threads: int | None


class DestinationReport(msgspec.Struct, frozen=True, kw_only=True):
    """A directory or store to which files would go.

    ``probed``: the directory that was asked: the destination, or the nearest one above it that exists.
    ``lacks``: what its file system cannot do, and what that means; ``fault``: why nothing can be written.
    """

    name: str
    probed: str | None = None
    file_system: str | None = None
    size_bytes: int | None = None
    free_bytes: int | None = None
    lacks: list[str] = []
    fault: str | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a URL, without its secrets. ``fault``: why a file could not be had, and what to do.

    ``proxy`` None: the request went without one. ``final``: where redirects led.
    """

    url: str
    proxy: str | None = None
    status: int | None = None
    elapsed_s: float = 0.0
    address: str | None = None
    final: str | None = None
    fault: str | None = None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch doctor --json`` (``cfetch.doctor/1``).

    ``settings``: those that are not the default, with their origin; secrets are hidden. ``proxies``: which
    proxies requests go through, and which variables of the environment are not used. ``problems``: what
    keeps cfetch from its work, each with the next step.
    """

    schema: str = "cfetch.doctor/1"
    installation: Installation
    machine: MachineReport
    settings: dict[str, str]
    proxies: list[str]
    destinations: list[DestinationReport]
    urls: list[Reached]
    problems: list[str]


def doctor_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """The report for people, in plain text, within 79 columns; the verdict is the last line."""
    yield from _describe_installation(diagnosis.installation)
    yield from _describe_machine(diagnosis.machine)
    yield from _describe_extras(diagnosis.installation.extras)
    if diagnosis.settings:
        yield from ("", "settings (not the defaults)")
        for name, words in diagnosis.settings.items():
            yield from _row(name, [words])
    for destination in diagnosis.destinations:
        yield from ("", f"destination {destination.name}")
        yield from _describe_destination(destination)
    yield from ("", "network")
    yield from _row("proxies", diagnosis.proxies or ["none: requests go straight to the server"])
    for reached in diagnosis.urls:
        yield from _describe_reached(reached)
    yield ""
    for problem in diagnosis.problems:
        yield from _fold(problem, "! ", "  ")
    number = len(diagnosis.problems)
    yield f"{plural(number, 'problem')} found" if number else "no problem found"


def _fold(words: str, head: str, indent: str) -> list[str]:
    """Lines of words; no path and no URL is broken, as they are copied from the report."""
    return textwrap.wrap(
        words,
        COLUMNS,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _row(name: str, parts: Iterable[str], *, join: str = "; ") -> Iterator[str]:
    """A name and its words, folded; a name that is longer than its column stands before them."""
    head = f"  {name:<{_INDENT - 2}}" if len(name) < _INDENT - 2 else f"  {name}  "
    words = join.join(part for part in parts if part)
    yield from _fold(words, head, " " * _INDENT) or [head.rstrip()]


def _describe_installation(here: Installation) -> Iterator[str]:
    yield f"cfetch {here.cfetch}"
    yield from _row("place", [here.place])
    yield from _row("Python", [here.python, here.executable])
    yield from _row("system", [here.system, here.tls])
    if here.libraries is None:
        yield from _row("libraries", ["unknown: this copy is run from its sources, and has no metadata"])
    else:
        yield from _row("libraries", map(_name_package, here.libraries), join=", ")
    if not here.has_plugins:
        yield from _row(
            "plug-ins", ["cfetch's own are not installed: follow, bench, tune, spark are missing"]
        )
    for plugin in here.plugins:
        state = f"does not load: {plugin.fault}" if plugin.fault else "loads"
        yield from _row("plug-in", [f"{plugin.name} ({plugin.kind}) of {plugin.distribution}", state])


def _name_package(package: Package) -> str:
    if package.version is None:
        return f"{package.name} MISSING"
    return f"{package.name} {package.version}" + (
        f" (needs {package.needs})" if package.fits is False else ""
    )


def _describe_machine(machine: MachineReport) -> Iterator[str]:
    usable = f"{machine.cores_usable} usable here" if machine.cores_usable != machine.cores else ""
    yield from _row("processors", [str(machine.cores), usable])
    memory = [
        "unknown" if machine.memory_bytes is None else size(machine.memory_bytes),
        "" if machine.memory_free_bytes is None else f"{size(machine.memory_free_bytes)} available",
        "" if machine.memory_limit_bytes is None else f"limited to {size(machine.memory_limit_bytes)}",
    ]
    yield from _row("memory", memory)
    files, most = machine.open_files, machine.most_open_files
    more = "" if files == most else f", which cfetch raises to {_name_limit(most)} if need be"
    enough = "" if machine.downloads is None else f"enough for {count(machine.downloads)} downloads at a time"
    yield from _row("open files", [_name_limit(files) + more, enough])
    yield from _row("threads", [_name_limit(machine.threads)])


def _name_limit(number: int | None) -> str:
    return "no limit" if number is None else f"{number:,}"


def _describe_extras(extras: list[Extra]) -> Iterator[str]:
    if not extras:
        return
    yield from ("", "extras (each installed by: pip install 'cfetch[NAME]')")
    for extra in extras:
        if extra.lacks:
            yield from _row(extra.name, [f"lacks {', '.join(extra.lacks)}"])
        else:
            names = ", ".join(map(_name_package, extra.packages)) or "this Python needs no library for it"
            yield from _row(extra.name, [names])


def _describe_destination(destination: DestinationReport) -> Iterator[str]:
    if destination.probed is not None and destination.probed != destination.name:
        yield from _row("probed", [destination.probed])
    kind = destination.file_system
    room = "" if destination.free_bytes is None else f"{size(destination.free_bytes)} free"
    if room and destination.size_bytes is not None:
        room += f" of {size(destination.size_bytes)}"
    if kind or room:
        yield from _row("file system", [kind or "of an unknown kind", room])
    if destination.fault:
        yield from _row("fault", [destination.fault])
    elif destination.probed is not None:
        for lack in destination.lacks or ["nothing that cfetch uses"]:
            yield from _row("lacks", [lack])


def _describe_reached(reached: Reached) -> Iterator[str]:
    way = f"through {reached.proxy}" if reached.proxy else "without a proxy"
    yield f"  {reached.url}"
    status = "" if reached.status is None else f"HTTP {reached.status}"
    state = f"cannot be had: {reached.fault}" if reached.fault else "can be had"
    yield from _row("", [state])
    facts = [way, status, duration(reached.elapsed_s), reached.address or ""]
    yield from _row("", facts)
    if reached.final is not None:
        yield from _row("", [f"redirected to {reached.final}"])
