"""A follower whose plans are shared by processes: the same mirror, split ranges and deletes included."""

from cfetch.tasks.processes import child_processes, worker
from tests.plugins.follow.follow_world import open_world

TWO = {"processes": 2, "mitigation": False}


def test_two_processes_mirror_a_real_server(tmp_path, monkeypatch):
    """Each plan has processes of its own; what is in place is not fetched again."""
    started: list[worker.Worker] = []

    class Noted(worker.Worker):
        def __init__(self, spec):
            super().__init__(spec)
            started.append(self)

    monkeypatch.setattr(child_processes, "Worker", Noted)
    with open_world(tmp_path) as world:
        world.served.write({f"d{n % 3}/f{n}": f"{n}" for n in range(40)})
        found = world.follow(settings=TWO, delete=True)
        assert (found.files.done, found.exit_code, len(started)) == (40, 0, 2)
        assert world.tree() == world.served.tree()
        world.served.split()
        changes = {f"d{n % 3}/f{n}": None if n % 4 else f"new {n}" for n in range(20)}
        world.served.world.publisher.max_delete = 100
        world.served.write(changes | {"e": "other"})
        found = world.follow(settings=TWO, delete=True, max_delete=100)
        assert (found.files.done, found.feed.deletes, found.exit_code) == (6, 15, 0)
        assert world.tree() == world.served.tree()
        assert len(started) == 4
