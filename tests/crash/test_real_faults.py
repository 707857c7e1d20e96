"""Limits and file systems that really are full, small, forbidden or read-only; no tracer."""

import os
import resource
import shlex
import shutil
import subprocess

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.process import command, ended, started
from tests.crash.scene import KIB, MIB, PROJECT, TIMEOUT_S, Job, Scene, serving

LARGE = Job(
    {"d/tagged": Synthetic("d/tagged", 4 * MIB), "d/hashed": Synthetic("d/hashed", 4 * MIB)},
    hashed=("d/hashed",),
    sized=False,
)
MANY = Job({f"d/{i}": Synthetic(f"d/{i}", KIB) for i in range(40)}, hashed=(), sized=False)


def has_namespaces():
    """Whether a user of this machine may mount a file system of his own."""
    try:
        done = subprocess.run(
            ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


namespaces = pytest.mark.skipif(not has_namespaces(), reason="no user namespaces with mounts here")


def test_c89_files_may_not_grow(tmp_path, children):
    """RLIMIT_FSIZE: named as what it is; what was kept is not fetched again when the limit is gone."""
    limit, job = 2 * MIB, LARGE
    with serving(job.files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=job)
        limits = [(resource.RLIMIT_FSIZE, (limit, limit))]
        done = ended(started(command(scene, "--quiet"), limits=limits))
        assert done.code == 1
        assert "File too large (the file system or a limit, ulimit -f, allows no file so large)" in done.said
        assert scene.missing() == list(job.files)
        held = scene.held_bytes()
        assert held >= limit
        assert scene.finish() == job.total_bytes - held


def in_tmpfs(scene, first, second, *, size="", between="remount,size=64m,nr_inodes=0"):
    """Two runs on a file system of their own, changed ``between``; the first one's exit code and words."""
    folder = scene.to.parent
    to = shlex.quote(str(scene.to))
    script = f"""
        mkdir -p {to} && mount -t tmpfs -o {size or "size=64m"} tmpfs {to} || exit 99
        {first}
        {shlex.join(command(scene, "--quiet"))} 2>said; echo $? >code
        cp -a {to} before
        mount -o {between} {to} || exit 98
        {second}
        {shlex.join(command(scene, "--quiet", "--json"))} >out 2>said-then; echo $? >code-then
        cp -a {to} after
    """
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "code-then").read_text() == "0\n", (folder / "said-then").read_text()
    return int((folder / "code").read_text()), (folder / "said").read_text()


def looked_at(scene, name):
    """The same scene, over a copy of its tree."""
    scene.to = scene.to.parent / name
    return scene


@namespaces
def test_c87_a_disk_that_is_full_in_the_middle(tmp_path, children):
    """Room for 3 MiB: exit 3, the cause, parts kept; with more, the rest is fetched and nothing twice."""
    with serving(LARGE.files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=LARGE)
        code, said = in_tmpfs(scene, "", "", size="size=3m")
    assert code == 3
    assert "No space left on device (free some space and run the same command again)" in said
    assert "d/tagged" in said or "d/hashed" in said
    assert "Traceback" not in said
    before = looked_at(scene, "before")
    assert before.wrong() == []
    held = before.held_bytes()
    assert held >= MIB
    after = looked_at(scene, "after")
    assert (after.wrong(), after.missing(), after.debris()) == ([], [], [])
    assert f'"fetched":{LARGE.total_bytes - held},' in (tmp_path / "out").read_text()


@namespaces
def test_c89_a_disk_without_inodes(tmp_path, children):
    """There is space, so "no space" would be a riddle."""
    with serving(MANY.files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=MANY)
        code, said = in_tmpfs(scene, "", "", size="size=64m,nr_inodes=25")
    assert code == 3
    assert "can hold no more files" in said
    assert looked_at(scene, "before").wrong() == []
    after = looked_at(scene, "after")
    assert (after.wrong(), after.missing(), after.debris()) == ([], [], [])


@namespaces
def test_c90_a_disk_that_is_read_only(tmp_path, children):
    """Refused before the first request."""
    with serving(MANY.files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=MANY)
        remount = shlex.join(["mount", "-o", "remount,ro", str(scene.to)])
        code, said = in_tmpfs(scene, remount, "", between="remount,rw")
        assert origin.connections > 0
    assert code == 3
    assert "Read-only file system (the file system is mounted read-only; " in said
    assert said.count("\n") == 1
    assert not any(path.is_file() for path in (tmp_path / "before").rglob("*"))


def test_c87_metrics_on_a_full_device(tmp_path, url, children):
    """/dev/full takes not one byte: exit 3, and it is named."""
    scene = Scene(tmp_path, url, children)
    done = ended(started(command(scene, "--metrics", "/dev/full", "--quiet")))
    assert done.code == 3
    assert "cannot write the metrics file /dev/full: No space left on device" in done.said
    assert scene.wrong() == []
    scene.finish()


def test_c87_metrics_that_are_full_at_the_end(tmp_path, children):
    """All files are in place when the last records do not fit: exit 3, and the cause is told."""
    job = Job({"a": Synthetic("a", 10), "b": Synthetic("b", 10)}, hashed=())
    with serving(job.files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=job)
        scene.finish()
        (metrics,) = scene.to.glob(".cfetch/metrics/*")
        limit = len(metrics.read_bytes().splitlines()[0]) + 100
        shutil.rmtree(scene.to)
        done = ended(started(command(scene, "--quiet"), limits=[(resource.RLIMIT_FSIZE, (limit, limit))]))
    assert done.code == 3
    assert "stopped: cannot write the metrics file" in done.said
    assert "File too large" in done.said
    assert (scene.wrong(), scene.missing()) == ([], [])


def nofile(soft, hard):
    return [(resource.RLIMIT_NOFILE, (soft, hard))]


def test_c99_more_downloads_than_descriptors_are_refused_at_once(tmp_path, url, children):
    """64 files for 256 downloads: exit 2 with both figures, and no request was made."""
    scene = Scene(tmp_path, url, children)
    done = ended(started(command(scene, "--concurrency", "256", "--quiet"), limits=nofile(64, 64)))
    assert done.code == 2
    assert "concurrency is 256, and the system lets a process open 64 files (ulimit -n)" in done.said
    assert "enough for 16 downloads" in done.said
    assert not scene.to.exists()


@pytest.mark.parametrize(("soft", "hard", "concurrency"), [(64, 64, "16"), (64, 4096, "256")])
def test_c99_what_the_limit_permits_works(tmp_path, children, soft, hard, concurrency):
    """As many as 64 are said to be enough for; a soft limit is raised where that is allowed."""
    files = {f"d{i}/{i}": Synthetic(str(i), 30 * KIB) for i in range(300)}
    with serving(files, pace_bps=100.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, children, job=Job(files, hashed=()))
        words = command(scene, "--concurrency", concurrency, "--quiet")
        done = ended(started(words, limits=nofile(soft, hard)))
    assert (done.code, done.said) == (0, "")
    assert (scene.wrong(), scene.missing()) == ([], [])


# numpy is loaded for a run that lasts a second: both runs load it, or the comparison would be of that
WITH_NUMPY = "import cfetch.straggler.evidence; from cfetch.cli.app import main; main()"


def test_c100_memory_does_not_grow_with_the_file(tmp_path, children):
    """100 MiB beside 1 MiB: the most memory that was resident differs by less than a few buffers.

    Four connections at most, as each may hold 512 KiB of the file's pieces.
    """
    peaks_mib = []
    for size in (MIB, 100 * MIB):
        job = Job({"a": Synthetic("a", size)}, hashed=())
        folder = tmp_path / str(size)
        folder.mkdir()
        with serving(job.files) as origin:
            scene = Scene(folder, origin.url, children, durability="crash", job=job)
            python, _, _, *words = command(scene, "--quiet", "--concurrency", "4")
            process = started(
                [python, "-c", WITH_NUMPY, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        peaks_mib.append(usage.ru_maxrss / KIB)
    assert peaks_mib[1] - peaks_mib[0] < 8
