"""The destinations of a run: what becomes of the run's beginning if one of several hangs."""

from contextlib import closing

from cfetch.run.volumes import Volumes
from cfetch.storage import hanging_calls


def test_a_volume_that_hangs_does_not_keep_a_run_from_its_beginning(tmp_path, monkeypatch):
    """It is named and left out. What a killed move has left stays until all volumes answer."""
    roots, state = [tmp_path / "a", tmp_path / "b"], tmp_path / "state"
    killed = roots[0] / ".cfetch/moves/x"
    killed.mkdir(parents=True)
    for root in roots:
        (root / ".cfetch/attempts/i/1").mkdir(parents=True)
    with closing(Volumes(roots, state=state, write_timeout_s=60.0)) as volumes:
        with monkeypatch.context() as hanging:
            hanging.setitem(hanging_calls._hanging, str(roots[1]), 1)
            with volumes.stage_parts("attempts/i/1", "i", 1, state, "p"):
                assert [name for name, _ in volumes.refused] == [str(roots[1])]
                assert "does not answer" in str(volumes.refused[0][1])
        assert killed.exists()
        with volumes.stage_parts("attempts/i/1", "i", 1, state, "p"):
            assert not killed.exists()
