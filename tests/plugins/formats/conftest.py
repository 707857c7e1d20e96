"""What tests of readers share with those of manifests."""

from tests.manifest.conftest import error_of, frozen

__all__ = ["error_of", "frozen"]
