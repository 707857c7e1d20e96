"""What is installed here: versions of cfetch, Python and libraries, extras and what they lack, plug-ins.

The requirements are those of cfetch's own metadata, so that no second list can disagree with them.
"""

import os
import platform
import re
import ssl
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

from cfetch.base.entry_points import name_distribution
from cfetch.base.errors import UsageError
from cfetch.base.registry import SHIPPED, has_plugins, list_foreign_names, load
from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.show.doctor_view import Extra, Installation, Package, PlugIn

NAME = "cfetch"
_FOR_DEVELOPERS = {"dev", "docs"}
_REQUIREMENT = re.compile(
    r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?\Z", re.DOTALL
)
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_PYTHON = re.compile(r"""python_version\s*(<=|>=|<|>|==|!=)\s*['"](\d+(?:\.\d+)*)['"]""")
_BOUND = re.compile(r"(<=|>=|<|>|==|!=)\s*(\d+(?:\.\d+)*)\Z")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


class Requirement(NamedTuple):
    """A library that the metadata names. ``extra``: empty for one that cfetch always needs."""

    name: str
    needs: str
    extra: str


def examine_installation() -> Installation:
    """Look at the versions of everything that cfetch uses here."""
    needed = None if (texts := _read_metadata()) is None else read_requirements(texts)
    libraries = None if needed is None else [examine_package(each) for each in needed if not each.extra]
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    libc = " ".join(filter(None, platform.libc_ver()))
    return Installation(
        cfetch=__version__,
        place=printable(str(Path(__file__).parents[1]), 1000),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        executable=printable(sys.executable, 1000),
        system=printable(f"{system}, {libc}" if libc else system),
        tls=ssl.OPENSSL_VERSION,
        has_plugins=has_plugins(),
        libraries=libraries,
        extras=examine_extras(needed or []),
        plugins=list(_examine_plugins()),
    )


def _read_metadata() -> Sequence[str] | None:
    try:
        return requires(NAME)
    except PackageNotFoundError:
        return None


def read_requirements(
    texts: Iterable[str], python: tuple[int, ...] = sys.version_info[:2]
) -> list[Requirement]:
    """The requirements of the metadata that count for this Python, each once; not those of developers.

    >>> read_requirements(["a<3,>=1", "b>=2; (python_version < '3.0') and extra == 'x'", "c; extra == 'x'"])
    [Requirement(name='a', needs='<3,>=1', extra=''), Requirement(name='c', needs='', extra='x')]
    """
    needed: dict[Requirement, None] = {}
    for text in texts:
        match = _REQUIREMENT.match(text)
        if match is None:
            continue
        marker = match[3] or ""
        extra = name[1] if (name := _EXTRA.search(marker)) else ""
        counts = all(_holds(python, sign, bound) for sign, bound in _PYTHON.findall(marker))
        if counts and extra not in _FOR_DEVELOPERS:
            needed[Requirement(match[1], match[2].strip(), extra)] = None
    return list(needed)


def examine_package(needed: Requirement) -> Package:
    """Look whether a library is installed, and in a version that is new enough."""
    try:
        there = version(needed.name)
    except PackageNotFoundError:
        return Package(name=needed.name, version=None, needs=needed.needs, fits=False)
    return Package(
        name=needed.name, version=printable(there), needs=needed.needs, fits=fits(there, needed.needs)
    )


def fits(there: str, needs: str) -> bool | None:
    """Whether a version meets ``>=1.2,<3``; None: one of them has a form that is not compared here.

    >>> fits("3.14.4", ">=3.14.4"), fits("3.9", ">=3.14"), fits("3.0rc1", "<3"), fits("1.0", "~=1.0")
    (True, False, False, None)
    """
    release = _RELEASE.match(there)
    bounds = [_BOUND.match(part.strip()) for part in needs.split(",") if part.strip()]
    if release is None or None in bounds:
        return None
    numbers = _to_numbers(release[1])
    return all(_holds(numbers, bound[1], bound[2]) for bound in bounds if bound is not None)


def _to_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _holds(there: tuple[int, ...], sign: str, bound: str) -> bool:
    wanted = _to_numbers(bound)
    width = max(len(there), len(wanted))
    left, right = (numbers + (0,) * (width - len(numbers)) for numbers in (there, wanted))
    return {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "==": left == right,
        "!=": left != right,
    }[sign]


def examine_extras(needed: Sequence[Requirement]) -> list[Extra]:
    """Look which extras have all their libraries; ``needed`` are the requirements of all."""
    extras = []
    for name in sorted({each.extra for each in needed if each.extra} - {"all"}):
        packages = [examine_package(each) for each in _join_needs(needed, name)]
        lacks = [f"{each.name}{each.needs}" for each in packages if each.version is None]
        lacks += [
            f"{each.name}{each.needs} ({each.version} is installed)"
            for each in packages
            if each.version is not None and each.fits is False
        ]
        extras.append(Extra(name=name, packages=packages, lacks=lacks))
    return extras


def _join_needs(needed: Iterable[Requirement], extra: str) -> list[Requirement]:
    """The requirements of an extra, each library once: of several lowest versions the highest counts."""
    parts: dict[str, dict[str, str]] = {}
    for each in needed:
        if each.extra != extra:
            continue
        bounds = parts.setdefault(each.name, {})
        for part in filter(None, map(str.strip, each.needs.split(","))):
            match = _BOUND.match(part)
            sign = match[1] if match is not None and match[1] in (">=", "<") else part
            held = _BOUND.match(bounds.get(sign, ""))
            is_tighter = match is None or held is None or _holds(_to_numbers(match[2]), sign, held[2])
            bounds[sign] = part if is_tighter else bounds[sign]
    return [Requirement(name, ",".join(sorted(bounds.values())), extra) for name, bounds in parts.items()]


def _examine_plugins() -> Iterable[PlugIn]:
    for kind in SHIPPED:
        for name in list_foreign_names(kind):
            fault = None
            try:
                load(kind, name)
            except UsageError as error:
                fault = str(error)
            distribution = printable(name_distribution(kind, name))
            yield PlugIn(kind=kind, name=printable(name), distribution=distribution, fault=fault)


def list_faults(here: Installation) -> Iterable[str]:
    """What is wrong with the installation itself. An extra that lacks something is no fault."""
    broken = [each for each in here.libraries or () if each.fits is False]
    if broken:
        names = ", ".join(f"{each.name}{each.needs}" for each in broken)
        yield (
            f"cfetch needs {names}, which this Python does not have: "
            f"{os.path.basename(here.executable) or 'python'} -m pip install --upgrade cfetch"  # noqa: PTH119
        )
    for plugin in here.plugins:
        if plugin.fault:
            yield plugin.fault
