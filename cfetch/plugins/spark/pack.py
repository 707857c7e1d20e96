"""Packs cfetch for workers that have nothing but Python and Spark: one archive, which Spark unpacks on each.

It holds cfetch and the packages that its tasks need, as they are installed here; PySpark comes with Spark. So
the workers' Python has to be of the same version and on the same kind of machine.
"""

import gzip
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import cfetch
from cfetch.base.errors import UsageError
from cfetch.manifest.digests import missing_library
from cfetch.storage.files import USERS, local_fault, open_replacement
from cfetch.storage.outputs import find_output

DIRECTORY = "cfetch_pack"  # not "cfetch": a directory of that name would be imported as the package itself
TASKS = ("aiohttp", "httptools", "idna", "msgspec", "multidict", "numpy", "yarl")
EXTRAS = ("blake3", "google-crc32c", "obstore")  # object stores, and hashes that manifests state
# One sort of hash, which S3 states of its objects, for a sixth of the slim archive.
LARGE_EXTRAS = ("awscrt",)
ARROW = ("pandas", "pyarrow")  # Spark itself asks for them wherever rows go to Python
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LEFT_OUT = {"__pycache__", "include", "tests"}  # half of pandas and pyarrow are tests and headers
_LEFT_OUT_ENDINGS = {".a", ".h", ".hpp", ".pxd", ".pyi", ".pyx"}


class Packed(NamedTuple):
    """``packages``: with their versions; ``python`` is as ``3.11``, ``platform`` as ``linux-x86_64``."""

    path: Path
    size_bytes: int
    files: int
    packages: tuple[str, ...]
    python: str
    platform: str

    def submit_options(self) -> str:
        """The options of ``spark-submit`` that ship it."""
        return f"--archives {self.path}#{DIRECTORY} --conf spark.executorEnv.PYTHONPATH={DIRECTORY}"


def write_pack(path: Path, *, slim: bool = False) -> Packed:
    """Write the archive. ``slim``: without pandas, pyarrow and numpy, for workers that have them.

    Raises:
        LocalFault: the file cannot be written.
        UsageError: a package that the tasks need is not installed, or ``path`` is a device, a pipe or a
            directory.
    """
    needed = TASKS if slim else (*TASKS, *ARROW)
    others = ("uvloop", *EXTRAS) if slim else ("uvloop", *EXTRAS, *LARGE_EXTRAS)
    packages = _find_packages(needed, others, without={"numpy"} if slim else set())
    files = 0
    target = find_output(path)
    try:
        with (
            open_replacement(target, mode=USERS) as file,
            gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0, compresslevel=6) as zipped,
            tarfile.open(fileobj=zipped, mode="w") as archive,
        ):
            for source, name in sorted(_list_files(packages), key=lambda each: each[1]):
                archive.add(source, name, recursive=False, filter=_anonymize)
                files += 1
    except OSError as error:
        raise local_fault(error, f"cannot write {path}") from None
    return Packed(
        path,
        path.stat().st_size,
        files,
        (f"cfetch {cfetch.__version__}", *(f"{package.name} {package.version}" for package in packages)),
        f"{sys.version_info[0]}.{sys.version_info[1]}",
        sysconfig.get_platform(),
    )


def _find_packages(needed: tuple[str, ...], others: tuple[str, ...], without: set[str]) -> list[Distribution]:
    """The packages and all that they need; ``others`` as far as they are installed here."""
    known: dict[str, Distribution] = {}
    waiting = [name for name in (*needed, *others) if name not in without]
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in known or key in without:
            continue
        try:
            known[key] = distribution(name)
        except PackageNotFoundError:
            if name in needed:
                raise UsageError(missing_library("cfetch spark pack", name, "spark")) from None
            continue  # for another platform, or another Python
        texts = (text for text in known[key].requires or () if "extra ==" not in text)
        waiting += [match[0] for text in texts if (match := _NAME.match(text))]
    return [known[key] for key in sorted(known)]


def _list_files(packages: list[Distribution]) -> Iterator[tuple[Path, str]]:
    """Each file with its name in the archive."""
    own = Path(cfetch.__path__[0])
    for path in own.rglob("*"):
        if path.is_file() and _is_needed(path.relative_to(own.parent)):
            yield path, str(path.relative_to(own.parent))
    for package in packages:
        for file in package.files or ():
            source = Path(str(file.locate()))
            if ".." not in file.parts and _is_needed(Path(file)) and source.is_file():
                yield source, str(file)


def _is_needed(path: Path) -> bool:
    return _LEFT_OUT.isdisjoint(path.parts) and path.suffix not in _LEFT_OUT_ENDINGS


def _anonymize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same packages make the same archive, whoever packs them and when."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
