"""Each reader of bytes from elsewhere takes whole samples, and refuses damaged ones by an error of cfetch."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.mutations import mutations
from tests.fuzz.readers import READERS

CORPUS = Path(__file__).parent / "corpus"
EXAMPLES = 20  # of each reader; ``scripts/fuzz`` does as many as an hour holds
MOST_BYTES = 64 << 10
FALLEN = sorted(CORPUS.glob("*/*"))


@pytest.mark.parametrize("name", READERS)
def test_samples_are_taken(name):
    """The samples are what the reader takes; damage to something else would test nothing."""
    reader = READERS[name]
    assert all(reader.judge(reader.finish(sample)) for sample in reader.samples)


@pytest.mark.parametrize("name", READERS)
def test_damaged_samples(name):
    """Damaged samples give a value that survives being written and read again, or an error of cfetch."""
    reader = READERS[name]

    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(reader.samples, most_bytes=MOST_BYTES))
    def damage(data):
        reader.judge(reader.finish(data))

    damage()


@pytest.mark.parametrize("path", FALLEN, ids=[f"{path.parent.name}/{path.name}" for path in FALLEN])
def test_corpus(path):
    """What once broke a reader does not any more. The files hold finished samples."""
    READERS[path.parent.name].judge(path.read_bytes())
