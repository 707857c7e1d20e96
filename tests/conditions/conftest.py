"""What the conditions' tests share: an environment without settings, no dice, and spans that can be read."""

import os

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.conditions.runner import SECRETS


@pytest.fixture
def bare(monkeypatch):
    """No setting of the person who runs the tests; a token as the one variable that cfetch reads."""
    for name in os.environ:
        if name.upper().startswith(("CFETCH_", "DATABRICKS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DATABRICKS_TOKEN", SECRETS["token"])
    monkeypatch.setattr("cfetch.run.local_run.random.random", lambda: 0.0)  # tries follow each other at once


@pytest.fixture
def spans(monkeypatch):
    """The spans that a configured SDK has seen finish."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter.get_finished_spans
