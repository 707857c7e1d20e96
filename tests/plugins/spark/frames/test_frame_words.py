"""Errors of rows name what a user of frames can give: over the texts that the engine has."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cfetch.plugins.spark.frames.frame_words import (
    CALL_WORDS,
    MANIFEST_WORDS,
    OPTION_WORDS,
    put_into_frame_words,
)
from cfetch.plugins.spark.frames.options import NOT_HERE
from cfetch.plugins.spark.frames.rows import FileRow, make_arrow_batches

CORE = Path(__file__).parents[4] / "cfetch"
FILES = [
    *(CORE / "engine").glob("*.py"),
    *(CORE / "wire").glob("*.py"),
    *(CORE / "manifest" / name for name in ("rows.py", "url_completion.py", "fields.py")),
]


def list_texts():
    """All texts with a flag or a manifest in them, without docstrings; what is put in is an ellipsis."""
    for path in FILES:
        tree = ast.parse(path.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "…"
                    for part in node.values
                )
            if re.search("--[a-z]|manifest", text):
                yield path.name, text


@pytest.mark.parametrize(
    "words", [CALL_WORDS, OPTION_WORDS, MANIFEST_WORDS], ids=["call", "option", "manifest"]
)
def test_no_text_names_a_flag(words):
    """Nor a command, a setting that frames refuse, or a manifest that a frame of links does not have."""
    refused = "|".join(f"(?:option |Settings\\(){name}\\b" for name in NOT_HERE)
    pattern = f"--[a-z]|cfetch get|{refused}"
    if words is not MANIFEST_WORDS:
        pattern += "|the manifest says|in the manifest"
    texts = [(name, put_into_frame_words(text, words)) for name, text in list_texts()]
    assert len(texts) > 30
    assert [text for text in texts if re.search(pattern, text[1])] == []


@pytest.mark.parametrize(
    ("text", "call", "option"),
    [
        (
            "give --accept-html or --doubtful accept",
            "give Settings(accept_html=True) or Settings(doubtful='accept')",
            "give option accept_html=true or option doubtful=accept",
        ),
        (
            "(--refresh-command is one); see --bearer-env, --header and --cookies",
            "(renew=… is one); see Settings(bearer_env=…) and headers=…",
            "(option refresh_command_url is one); see option bearer_env=… and option headers_column",
        ),
        (
            "state the size in the manifest, or by cfetch get --sha256, or --proxy URL",
            "state the size in a column (size=…, sha256=…), or Settings(proxy=…)",
            "state the size in a column (option size_column, option hash_column), or option proxy_url",
        ),
        (
            "100 bytes where the manifest says 99",
            "100 bytes where the row says 99",
            "100 bytes where the row says 99",
        ),
        ("a --flag of others", "a --flag of others", "a --flag of others"),
    ],
)
def test_words(text, call, option):
    """A choice goes with its setting; what is an argument or an option of its own has its own name."""
    assert put_into_frame_words(text, CALL_WORDS) == call
    assert put_into_frame_words(text, OPTION_WORDS) == option


def test_a_row_of_a_manifest_names_options(tmp_path):
    """The list is a manifest there, and sizes and hashes stay in it."""
    text = "state the size in the manifest, or by cfetch get --sha256, or take it with --accept-unframed"
    record = SimpleNamespace(
        **dict.fromkeys(("path", "size_bytes", "verified", "volume", "rate_bps", "stragglers", "error_kind")),
        is_in_place=False,
        status="failed",
        start_s=0.0,
        end_s=1.0,
        attempts=(),
        error=text,
    )
    rows: Any = [FileRow(0, None, cast("Any", record))]
    (batch,) = make_arrow_batches(rows, tmp_path, content_bytes=None)
    assert batch["error"].to_pylist() == [
        "state the size in the manifest, or take it with option accept_unframed=true"
    ]
