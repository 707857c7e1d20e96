"""Who gets the user's own headers and token, where a repository is the source."""

import pytest

from cfetch.config.settings import Settings
from cfetch.run.header_hosts import aim_repository_token

HUB = "hf://datasets/o/n/"


@pytest.mark.parametrize(
    ("given", "sources", "bearer", "hosts"),
    [
        ({}, [HUB], "HF_TOKEN", ("huggingface.co",)),
        ({}, [HUB, "list.txt"], "HF_TOKEN", ("huggingface.co",)),
        ({}, ["list.txt"], None, None),
        ({"bearer_env": "MINE"}, [HUB], "MINE", ("huggingface.co",)),
        ({"header": ("A: b",)}, [HUB, "list.txt"], None, None),
        ({"header_host": ("other.test",)}, [HUB], None, ("other.test",)),
    ],
)
def test_who_gets_the_token_of_hugging_face(given, sources, bearer, hosts, monkeypatch):
    """The hub, unless the user has said something else."""
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    settings = aim_repository_token(Settings(**given), sources, {"HF_TOKEN": "x"})
    assert (settings.bearer_env, settings.header_host) == (bearer, hosts)
    assert aim_repository_token(Settings(), [HUB], {}) == Settings()
