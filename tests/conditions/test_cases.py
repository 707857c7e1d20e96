"""The real command against every hostile server of ``cases.py``."""

import pytest

from tests.conditions.cases import CASES
from tests.conditions.runner import CONTROLS, SECRETS, play, secrets_in, watched
from tests.engine.drive import tree

OPTIONS = {  # the body is read in other ways under a limit, and staged in other ways with two volumes
    "hash": ("--json", "--limit-rate", "1G"),
    "size": ("--progress", "json", "--to"),
    "nothing": (),
}


def check_secrets(ran, to, spans, made):
    """Whatever came: no canary and no control anywhere, and no foreign error behind one of ours."""
    assert "CANARY" not in ran.said
    assert not CONTROLS & set(ran.said)
    assert secrets_in(to) == []
    assert "CANARY" not in "".join(span.to_json() for span in spans())
    for error in made:
        assert "CANARY" not in f"{error!r} {error} {error.args}"
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__


def check_requests(case, ran, known):
    """Our secrets go to the entry's own origin, to nobody else, and no request tells where it comes from."""
    heads = "".join(ran.heads)
    assert all(SECRETS[name] in ran.heads[0] for name in ("query", "document", "entry"))
    assert not any(secret in head for head in ran.other_heads for secret in SECRETS.values())
    assert SECRETS["token"] not in heads
    assert "\r\nreferer:" not in heads.lower()
    if known in case.ranges:
        assert tuple("\r\nRange:" in head for head in ran.heads) == case.ranges[known]


def played(number, case):
    """What is known in its runs: all that changes the outcome or the requests, else one, each in its turn."""
    if case.ranges or len(set(case.expect.values())) > 1:
        return list(case.expect)
    return [list(case.expect)[number % len(case.expect)]]


@pytest.mark.parametrize(
    ("case", "knowns"),
    [(case, played(number, case)) for number, case in enumerate(CASES)],
    ids=lambda value: "" if isinstance(value, list) else value.name,
)
async def test_case(case, knowns, tmp_path, bare, spans, monkeypatch, subtests):
    """The right bytes under the final name or nothing there, the stated error, no secret, no control byte."""
    for known in knowns:
        outcome = case.expect[known]
        with subtests.test(known=known):
            with watched(monkeypatch) as made:
                options = [*OPTIONS[known], tmp_path / "second"] if known == "size" else OPTIONS[known]
                ran = await play(case, known, tmp_path / known, *options)
            assert ran.records.keys() == {"d/a"}, ran.said
            record = ran.records["d/a"]
            if outcome in ("done", "lie"):
                assert (ran.code, record["status"]) == (0, "done"), record
                assert record["verified"] == {"hash": "sha256", "size": "size", "nothing": "none"}[known]
                assert (ran.tree | tree(tmp_path / "second") == {"d/a": case.body}) is (outcome == "done")
            else:
                assert (ran.code, record["status"], record["error_kind"]) == (1, "failed", outcome), record
                assert ran.tree | tree(tmp_path / "second") == {}
            check_secrets(ran, tmp_path / known, spans, made)
            check_requests(case, ran, known)
