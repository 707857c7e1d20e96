"""What tests of following share with those of other use cases."""

from tests.app.conftest import in_place, run, site

__all__ = ["in_place", "run", "site"]
