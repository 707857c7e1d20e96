"""Random worlds of names on the file system of the tests; ``benchmarks/random_names.py`` has more of both."""

import random
from collections.abc import Sequence

from tests.crash.scene import Children, serving
from tests.storage.name_worlds import files_of, make_world, play

WORLDS = 6


def test_every_name_that_the_file_system_holds_is_there_and_the_others_are_named(tmp_path):
    """A judge asks the file system itself; a second run and ``verify`` end as the first run."""
    said = tmp_path / "said"
    with Children() as children, serving(files_of()) as origin:

        def run(words: Sequence[str]) -> tuple[int, str]:
            code = children.run(None, list(words), said)
            return code, said.read_text(errors="replace")

        for seed in range(WORLDS):
            place = tmp_path / str(seed)
            place.mkdir()
            assert play(make_world(random.Random(seed)), place, tmp_path, origin.url, run) == [], seed
