"""Who gets the user's own headers and token, where a repository is the source."""

import pytest

from cfetch.base.config.settings import Settings
from cfetch.run.header_hosts import aim_repository_token, note_unmet_hosts

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


@pytest.mark.parametrize(
    ("hosts", "is_told"),
    [
        (("a.test",), False),
        (("b.test", "a.test"), False),
        (("*",), False),
        (None, False),
        (("b.test",), True),
        (("a.test:8080",), True),
    ],
)
def test_a_login_for_a_host_without_files_is_told(hosts, is_told):
    """Somebody who forgets the port gets the public variant of a file, and no error."""
    settings = Settings(header=("A: b",), header_host=hosts)
    notes = note_unmet_hosts(settings, {"a.test": 3})
    assert ["the files are at a.test" in note for note in notes] == [True] * is_told
    assert note_unmet_hosts(Settings(), {"a.test": 3}) == ()
