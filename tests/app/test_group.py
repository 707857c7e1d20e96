"""Destinations that several users of one group share: real users, to whom root's processes change."""

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.group_rights import (
    create_file,
    give_files_to_group,
    make_directory,
    make_for_group,
)
from cfetch.storage.group_sharing import give_state_to_group
from tests.cli.verbs import count_bytes
from tests.engine.drive import tree
from tests.plugins.follow.follow_world import open_world
from tests.warm import AT_THE_START

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")

ANNA, BERT, TEAM, OTHERS = 61001, 61002, 61100, 61101
FILES = {f"{part}/{n}": Synthetic(f"{part}/{n}", 3000) for part in "ab" for n in range(3)}
MIB = 1 << 20


@pytest.fixture
def folder():
    """A directory of root's that all may enter, with one of the team's in it, ``team``."""
    path = Path(tempfile.mkdtemp(prefix="cfetch-group-"))
    path.chmod(0o755)
    team = path / "team"
    team.mkdir()
    os.chown(team, 0, TEAM)
    team.chmod(0o2775)
    yield path
    shutil.rmtree(path)


async def begin(user, *words, group=TEAM, umask=0o077):
    """Start a user's command; it is forked by a process that has read root's Python, which users cannot."""
    env = {name: value for name, value in os.environ.items() if name.startswith(("PATH", *AT_THE_START))}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cfetch", *map(str, words)),
        env=env | {"HOME": "/nonexistent"},
        user=user,
        group=group,
        extra_groups=[],
        umask=umask,
        cwd="/",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def command(user, *words, group=TEAM, umask=0o077):
    """The exit code of a user's command, and what it said."""
    child = await begin(user, *words, group=group, umask=umask)
    _, said = await asyncio.wait_for(child.communicate(), 300)
    assert b"Traceback" not in said, said.decode()
    return child.returncode, said.decode()


def write_manifest(folder, origin, names):
    path = folder / "m.txt"
    path.write_text("".join(f"{origin.url}{name}\n  out={name}\n" for name in names))
    path.chmod(0o644)
    return path


def closed_to_group(root):
    """What the group may not use as its owner does, and directories whose files would not be the group's."""
    wrong = []
    for path in [root, *root.rglob("*")]:
        mode = path.lstat().st_mode
        is_like_owner = mode >> 3 & 0o7 == mode >> 6 & 0o7 and path.lstat().st_gid == TEAM
        if not is_like_owner or (path.is_dir() and not mode & stat.S_ISGID):
            wrong.append((str(path), oct(mode)))
    return wrong


@pytest.mark.parametrize("state", ["data/.cfetch", "state"])
async def test_rejected_rows_are_for_the_group_too(folder, state):
    """Another member reads why rows were skipped, and skips rows as well."""
    to, place = folder / "team/data", folder / "team" / state
    async with Origin(FILES) as origin:
        names = sorted(FILES)
        for user, name in ((ANNA, names[0]), (BERT, names[1])):
            manifest = folder / f"{user}.jsonl"
            good = json.dumps({"url": f"{origin.url}{name}", "path": name})
            manifest.write_text(f'{good}\n{{"url": "{origin.url}x", "path": "../x"}}\n')
            manifest.chmod(0o644)
            words = ("--to", to, "--state", place, "--bad-rows", "skip", "--group", "-q")
            assert await command(user, "download", manifest, *words) == (0, "")
        assert len(list((place / "rejected").iterdir())) == 2
        assert closed_to_group(place) == []


async def test_members_of_a_group_share_a_destination(folder):
    """Each goes on where another has stopped, replaces files of the other, and nobody else may."""
    to = folder / "team/data"
    async with Origin(FILES) as origin:
        half = write_manifest(folder, origin, [name for name in FILES if name < "b"])
        assert await command(ANNA, "download", half, "--to", to, "--group", "-q") == (0, "")
        assert closed_to_group(to) == []
        assert stat.S_IMODE((to / ".cfetch").stat().st_mode) == 0o2770
        everything = write_manifest(folder, origin, FILES)
        code, said = await command(BERT, "download", everything, "--to", to)
        assert code == 2
        assert f"{to}/.cfetch belongs to the user with uid {ANNA}" in said
        assert "if that is meant, give --group" in said
        assert await command(BERT, "download", everything, "--to", to, "--group", "-q") == (0, "")
        assert {path for path in FILES if (to / path).is_file()} == set(FILES)
        words = ("download", everything, "--to", to, "--existing", "refetch", "-q")
        assert await command(ANNA, *words) == (0, "")  # who has made the state need not say it again
        for verb in (("plan", "list"), ("plan", "clean"), ("volume", "list"), ("verify", everything)):
            assert (await command(BERT, *verb, "--to", to))[0] == 0
        assert closed_to_group(to) == []
        code, _ = await command(BERT, "plan", "list", "--to", to, group=OTHERS)
        assert code == 3


async def test_a_member_goes_on_with_the_parts_of_another(folder):
    """Anna's run is killed, and Bert's brings only what is missing."""
    to, size_bytes = folder / "team/data", 8 * MIB
    files = {"big": Synthetic("big", size_bytes)}
    async with Origin(files, {"big": Fault(kind="slow", rate_bps=4.0 * MIB, first=1)}) as origin:
        manifest = write_manifest(folder, origin, files)
        child = await begin(ANNA, "download", manifest, "--to", to, "--group", "-q", "--segments", 1)
        while count_bytes(to, ".cfetch/attempts/*/1/*") < 3 * MIB:
            assert child.returncode is None, await child.communicate()
            await asyncio.sleep(0.02)
        child.kill()
        await child.communicate()
        assert await command(BERT, "download", manifest, "--to", to, "--group", "-q") == (0, "")
        begun = [request.range for request in origin.requests]
    assert begun[0] is None
    assert int(str(begun[1]).removeprefix("bytes=").split("-")[0]) >= 2 * MIB
    assert (to / "big").stat().st_size == size_bytes


async def test_a_state_that_is_not_shared_names_its_owner(folder):
    """And says what can be done; a state of one's own becomes shared afterwards."""
    to = folder / "team/data"
    async with Origin(FILES) as origin:
        manifest = write_manifest(folder, origin, FILES)
        assert (await command(ANNA, "download", manifest, "--to", to, "-q", umask=0o022))[0] == 0
        assert stat.S_IMODE((to / ".cfetch").stat().st_mode) & 0o777 == 0o700
        for verb in (("download", manifest), ("plan", "list"), ("get", f"{origin.url}a/0")):
            code, said = await command(BERT, *verb, "--to", to)
            assert code == 3
            assert f"{to}/.cfetch belongs to the user with uid {ANNA}, and you may not write there" in said
            assert "run the download with --group" in said
        code, said = await command(BERT, "download", manifest, "--to", to, "--group")
        assert (code, f"{to} belongs to the user with uid {ANNA}" in said) == (3, True)
        assert (await command(ANNA, "download", manifest, "--to", to, "--group", "-q", umask=0o022))[0] == 0
        assert closed_to_group(to / ".cfetch") == []
        assert (await command(BERT, "download", manifest, "--to", to, "--group", "-q"))[0] == 0


async def test_c110_without_the_option_a_directory_of_a_team_opens_nothing(folder):
    """The state is its maker's, and the umask counts."""
    to = folder / "team"
    async with Origin(FILES) as origin:
        manifest = write_manifest(folder, origin, FILES)
        assert (await command(ANNA, "download", manifest, "--to", to, "-q", umask=0o027))[0] == 0
    modes = {stat.S_IMODE(path.lstat().st_mode) & 0o077 for path in (to / ".cfetch").rglob("*")}
    assert modes == {0}
    assert stat.S_IMODE((to / "a").stat().st_mode) == 0o2750
    assert stat.S_IMODE((to / "a/0").stat().st_mode) == 0o640


def test_two_members_put_one_plan_at_the_same_time(folder):
    """Each shares the files of his own; those of the other are not his to change."""
    plan = folder / "team/plan"
    plan.mkdir()
    os.chown(plan, ANNA, TEAM)
    plan.chmod(0o2770)
    for name, user in (("anna", ANNA), ("bert", BERT)):
        (plan / name).write_bytes(b"")
        os.chown(plan / name, user, TEAM)
        (plan / name).chmod(0o600)
    groups = os.getgroups()
    os.setgroups([TEAM])
    os.seteuid(BERT)
    try:
        give_files_to_group(plan)
    finally:
        os.seteuid(0)
        os.setgroups(groups)
    assert [stat.S_IMODE((plan / name).stat().st_mode) for name in ("anna", "bert")] == [0o600, 0o660]


def test_all_is_the_groups_from_its_first_moment(folder, monkeypatch):
    """A member who is killed before he can change a mode has locked nobody out."""

    def die(*_, **__):
        raise SystemExit

    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, die)
    umask = os.umask(0o077)
    try:
        state = folder / "team/.cfetch"
        give_state_to_group(state)
        make_directory(state / "plans", 0o700)
        with suppress(SystemExit):
            os.close(create_file(state / "lock", os.O_RDWR | os.O_CREAT, 0o600))
        make_for_group(folder / "team/data", 0o777)
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(umask)
    assert closed_to_group(state) == []
    assert closed_to_group(folder / "team/data") == []


async def test_members_of_a_group_sync_a_directory_together(folder):
    """Each deletes what the other has brought, by one catalogue, and nobody else may."""
    to = folder / "team/data"
    async with Origin(FILES) as origin:
        manifest = write_manifest(folder, origin, FILES)
        words = ("sync", manifest, "--to", to, "--delete", "--max-delete", 9, "-q")
        assert await command(ANNA, *words, "--group") == (0, "")
        assert closed_to_group(to) == []
        write_manifest(folder, origin, [name for name in FILES if name > "b"])
        code, said = await command(BERT, *words)
        assert (code, "if that is meant, give --group" in said) == (2, True)
        assert (await command(BERT, *words, "--group"))[0] == 0
        assert not (to / "a").exists()
        write_manifest(folder, origin, FILES)
        assert await command(BERT, *words, "--group") == (0, "")
        write_manifest(folder, origin, [name for name in FILES if name > "b"])
        assert (await command(ANNA, *words))[0] == 0
        assert not (to / "a").exists()
        assert closed_to_group(to) == []
        assert (await command(BERT, *words, group=OTHERS))[0] == 3


def test_members_of_a_group_follow_a_feed_together(folder):
    """Each goes on from the other's checkpoint, deletes what the other has brought, and compares anew."""
    to, moments = folder / "team/data", folder / "team/moments"

    def run(user, *more):
        words = ("follow", served.url, "--to", to, "--once", "--delete", "--max-delete", 9, "-q", *more)
        return asyncio.run(command(user, *words, "--consistent", moments))

    with open_world(folder) as world:
        served = world.served
        served.write({"a/0": "0", "a/1": "1", "b/0": "0"})
        assert run(ANNA, "--group") == (0, "")
        assert closed_to_group(to) == []
        served.write({"a/0": None, "a/1": None, "b/1": "new"})
        code, said = run(BERT)
        assert (code, "if that is meant, give --group" in said) == (2, True)
        assert run(BERT, "--group") == (0, "")
        assert not (to / "a").exists()
        served.write({"a/0": "again", "b/1": "newer"})
        assert run(ANNA) == (0, "")
        served.write({"b/1": None})
        assert run(BERT, "--group", "--resync") == (0, "")
        assert tree(to) == tree(moments / "current") == served.tree()
        assert closed_to_group((moments / "current").resolve()) == []
        assert closed_to_group(to) == []
        assert asyncio.run(command(BERT, "follow", served.url, "--to", to, "--status"))[0] == 0
        assert asyncio.run(command(BERT, "follow", served.url, "--to", to, "--verify"))[0] == 0


def test_members_of_a_group_share_a_named_state(folder):
    """A follower's and a sync's part of it too."""
    to, state = folder / "team/data", folder / "team/state"
    with open_world(folder) as world:
        world.served.write({"a/0": "0"})
        manifest = folder / "m.txt"
        manifest.write_text(f"{world.served.url}/nothing\n")
        manifest.chmod(0o644)
        where = ("--to", to, "--state", state, "--group", "-q")
        for user in (ANNA, BERT):
            followed = asyncio.run(command(user, "follow", world.served.url, *where, "--once"))
            assert followed == (0, "")
            synced = asyncio.run(command(user, "sync", manifest, *where, "--max-failures", 1))
            assert synced[0] == 0
    assert closed_to_group(state) == []
