"""``cfetch plan rollback --remove``: a plan that nobody wants leaves nothing but the files in place."""

import json

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from tests.app.test_download import left_over
from tests.cli.verbs import cfetch, cfetch_plan, plans_of, whole

FILES = {f"{i}": Synthetic(f"{i}", 2_000_000 + i) for i in range(3)}


async def test_a_plan_is_given_up_for_good(tmp_path):
    """It and its parts are gone, with the links that it held; final files stay; the same job begins anew."""
    to, manifest = tmp_path / "to", tmp_path / "m.json"
    async with Origin(FILES, {"1": Fault(kind="truncate", after_bytes=1_500_000, first=0)}) as origin:
        rows = [{"url": f"{origin.url}{name}?sig=SECRET", "size": c.size_bytes} for name, c in FILES.items()]
        manifest.write_text(json.dumps({"version": 1, "files": rows}))
        first = await cfetch("download", manifest, "--to", to, "--max-attempts", "1", "--json")
        assert first.code == 1
        instant = first.document["instant"]
        assert [plan["instant"] for plan in await plans_of(to)] == [instant]
        done = await cfetch_plan("rollback", instant, "--remove", "--to", to, "--json")
    assert done.code == 0
    assert [plan for plan in await plans_of(to) if plan["action"] == "download"] == []
    assert left_over(to) == []
    assert not list((to / ".cfetch").rglob("*msgpack"))
    assert sorted(path.name for path in to.iterdir()) == [".cfetch", "0", "2"]
    async with Origin(FILES) as origin:
        rows = [{"url": f"{origin.url}{name}?sig=SECRET", "size": c.size_bytes} for name, c in FILES.items()]
        manifest.write_text(json.dumps({"version": 1, "files": rows}))
        again = await cfetch("download", manifest, "--to", to, "--json")
    assert (again.code, again.document["instant"] == instant) == (0, False)
    assert {name: (to / name).read_bytes() for name in FILES} == whole(FILES)


async def test_a_completed_plan_cannot_be_given_up(tmp_path):
    """There is nothing to undo, and its record stays."""
    async with Origin(FILES) as origin:
        rows = [{"url": f"{origin.url}{name}"} for name in FILES]
        manifest = json.dumps({"version": 1, "files": rows}).encode()
        first = await cfetch("download", "-", "--to", tmp_path, "--json", stdin=manifest)
    found = await cfetch_plan("rollback", first.document["instant"], "--remove", "--to", tmp_path)
    assert (found.code, "is completed" in found.err) == (2, True)
    assert [plan["state"] for plan in await plans_of(tmp_path)] == ["completed"]
