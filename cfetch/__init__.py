"""cfetch downloads a very large set of files, whole, verified and without stragglers."""

__version__ = "0.1.0"
__all__ = ["__version__"]
