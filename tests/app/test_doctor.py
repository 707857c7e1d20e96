"""``cfetch doctor``: versions, extras, limits, what a file system lacks, what can be reached; no secrets."""

import errno
import json
import os
import socket
from pathlib import Path

import jsonschema
import msgspec
import pytest

from cfetch.app.installed import examine_extras, examine_package, read_requirements
from cfetch.app.machine_limits import examine_machine
from cfetch.show.doctor_view import COLUMNS, Diagnosis, doctor_lines
from cfetch.storage import file_system, lacking
from cfetch.storage.file_system import find_kind, probe_file_system
from tests.app.command import cfetch
from tests.app.site import Site

SCHEMA = Path(__file__).parents[2] / "cfetch" / "schemas" / "doctor.json"
SECRETS = ("CANARYQUERY", "CANARYUSER", "CANARYPROXY", "CANARYHEADER", "CANARYTOKEN")


@pytest.fixture
def site():
    served = Site()
    yield served
    served.close()


@pytest.fixture
def closed_port():
    """A port of loopback at which nobody listens, as long as the test lasts."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in os.environ:
        if name.startswith("CFETCH_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def test_a_healthy_installation_is_told_in_lines_that_fit_a_terminal(site, tmp_path):
    """Exit code 0; versions, extras, limits, the file system and the reply of the server; nothing is left."""
    done = cfetch("doctor", f"{site.url}d/0.bin", "--to", tmp_path / "new" / "data")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == "no problem found"
    assert [line for line in lines if len(line) > COLUMNS and str(tmp_path) not in line] == []
    assert any(line.startswith("  libraries     aiohttp ") for line in lines)
    assert any("can be had" in line for line in lines)
    assert [*tmp_path.iterdir()] == []


def test_the_reasons_for_what_cannot_be_had(site, closed_port, tmp_path, monkeypatch):
    """A status, a refused connection with the proxy that is set and not used, a place that takes no files."""
    monkeypatch.setenv("HTTP_PROXY", "http://CANARYUSER:CANARYPROXY@127.0.0.1:9")
    (tmp_path / "file").write_bytes(b"")
    urls = (f"{site.url}gone", f"http://127.0.0.1:{closed_port}/a?sig=CANARYQUERY")
    done = cfetch("doctor", *urls, "--to", tmp_path / "file", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert done.returncode == 1
    assert [url["status"] for url in document["urls"]] == [404, None]
    place, gone, refused = document["problems"]
    assert place.startswith(f"nothing can be written to {tmp_path / 'file'}: ")
    assert gone.endswith("/gone cannot be had: HTTP 404; check the link")
    assert "Connection refused (asked without the proxy of HTTP_PROXY; see --proxy-from-env" in refused
    assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == []


def test_the_proxy_of_a_download_is_used_and_its_password_hidden(site, closed_port, tmp_path, monkeypatch):
    """The request goes through it, and the fault says that it is the proxy's; headers are hidden too."""
    monkeypatch.setenv("HTTP_PROXY", f"http://CANARYUSER:CANARYPROXY@127.0.0.1:{closed_port}")
    monkeypatch.setenv("MY_TOKEN", "CANARYTOKEN")
    done = cfetch(
        "doctor", f"{site.url}d/0.bin?sig=CANARYQUERY", "--to", tmp_path, "--proxy-from-env",
        "--header", "X-Key: CANARYHEADER", "--bearer-env", "MY_TOKEN",
    )  # fmt: skip
    assert (done.returncode, site.asked) == (1, [])
    assert f"cannot be had through http://127.0.0.1:{closed_port}:" in " ".join(done.stdout.split())
    assert "cannot connect to the proxy" in " ".join(done.stdout.split())
    assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == []


@pytest.mark.parametrize("text", ["data.csv", "http://", "http://[::1/a?sig=CANARYQUERY", "u:CANARY@host/f"])
def test_what_is_no_url_is_refused(text):
    """Before anything is examined, and without its query and login."""
    done = cfetch("doctor", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no URL; write https://HOST/PATH" in done.stderr
    assert "CANARY" not in done.stderr


def test_an_extra_that_is_not_there_names_what_it_lacks():
    """By the metadata: a marker of another Python does not count, and an old version is a lack too."""
    texts = [
        "aiohttp>=999",
        "no-such-library-here>=1; (python_version < '3.14') and extra == 'zstd'",
        "pytest; extra == 'dev'",
    ]
    core, zstd = read_requirements(texts, (3, 11))
    assert read_requirements(texts, (3, 14)) == [core]
    assert (zstd.name, zstd.extra) == ("no-such-library-here", "zstd")
    old, gone = examine_package(core), examine_package(zstd)
    assert (old.fits, gone.version, gone.fits) == (False, None, False)
    assert old.version is not None


def test_an_extra_names_a_library_once_that_two_requirements_name():
    """The highest of the lowest versions counts, as pip takes it."""
    texts = [
        "none-such-here<4,>=1.10; extra == 'a'",
        "none-such-here<3,>=1.9.3; extra == 'a'",
        "none-such-here>=9; extra == 'b'",
        "other-none-such; extra == 'a'",
    ]
    first, second = examine_extras(read_requirements(texts))
    assert first.lacks == ["none-such-here<3,>=1.10", "other-none-such"]
    assert [each.name for each in first.packages] == ["none-such-here", "other-none-such"]
    assert second.lacks == ["none-such-here>=9"]


def test_limits_of_a_container_are_those_of_all_its_groups(tmp_path):
    """The lowest of the groups from the process's own to the root counts; "max" is no limit."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (groups / "a" / "b").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    (proc / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable:  400 kB\nHugePages_Total: 0\n")
    (groups / "a" / "b" / "memory.max").write_text("max\n")
    (groups / "a" / "memory.max").write_text("300000\n")
    (groups / "a" / "b" / "pids.max").write_text("7\n")
    machine = examine_machine(proc, groups)
    assert (machine.memory_bytes, machine.memory_free_bytes) == (1_024_000, 409_600)
    assert (machine.memory_limit_bytes, machine.threads) == (300_000, 7)


def test_a_file_system_is_asked_for_each_call_that_it_may_lack(monkeypatch, tmp_path):
    """What is refused is named with what it means; the directory of the probe is removed."""
    lacked = probe_file_system(tmp_path).lacks

    def refuse(*_, **__):
        raise OSError(errno.ENOTSUP, "")

    for call in ("fsync", "fchmod", "link", "setxattr"):
        monkeypatch.setattr(os, call, refuse, raising=False)
    monkeypatch.setattr(file_system, "take_lock", lambda *_: False)
    lacks = probe_file_system(tmp_path).lacks
    wanted = [lacking.FLUSH_FILE, lacking.FLUSH_DIRECTORY, lacking.MODE, lacking.LINKS]
    expected = {*(each.loss for each in wanted), file_system.NO_ATTRIBUTES, file_system.NO_LOCKS}
    assert expected <= {*lacks}
    assert not {file_system.NO_LOCKS, lacking.LINKS.loss} & {*lacked}
    assert [*tmp_path.iterdir()] == []


def test_a_disk_that_fails_is_a_fault_and_no_lack(monkeypatch, tmp_path):
    """An error of another kind is raised, and the probe leaves nothing."""

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        probe_file_system(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount(tmp_path):
    """By its device, or else by the longest mount point, whose spaces are written as octal numbers."""
    below = tmp_path / "a b"
    below.mkdir()
    mounts = tmp_path / "mountinfo"
    point = str(below.resolve()).replace(" ", "\\040")
    mounts.write_text(
        "1 0 0:1 / / rw - ext4 x rw\n"
        f"2 1 0:2 / {point} rw shared:1 - nfs4 x rw\n"
        "3 1 0:3 / /no rw - vfat x rw\n"
    )
    assert (find_kind(below, mounts), find_kind(tmp_path, mounts)) == ("nfs4", "ext4")
    assert find_kind(below, tmp_path / "gone") is None


def test_lines_of_a_poor_installation():
    """A missing library, an extra that lacks one, a plug-in that does not load are named in their place."""
    done = json.loads(cfetch("doctor", "--json").stdout)
    here = done["installation"]
    here["libraries"] = [{"name": "yarl", "version": None, "needs": ">=1", "fits": False}]
    here["extras"] = [{"name": "ftp", "packages": [], "lacks": ["aioftp>=0.28"]}]
    here["plugins"] = [{"kind": "policies", "name": "p", "distribution": "d 1", "fault": "it failed"}]

    lines = [*doctor_lines(msgspec.convert(done, Diagnosis))]
    assert "  libraries     yarl MISSING" in lines
    assert "  ftp           lacks aioftp>=0.28" in lines
    assert "  plug-in       p (policies) of d 1; does not load: it failed" in lines
