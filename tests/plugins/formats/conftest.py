"""What tests of readers share with those of manifests."""

from tests.manifest.conftest import clashes_of, error_of, frozen

__all__ = ["clashes_of", "error_of", "frozen"]
