"""What tests of tracing share."""

from tests.spans import spans  # noqa: F401 - a fixture
