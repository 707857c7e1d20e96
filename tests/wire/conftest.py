"""What the tests of the network need made once."""

from typing import Any

import pytest
import trustme


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A CA, and the setting that makes it trusted."""
    made: Any = trustme.CA()
    made.file = str(tmp_path_factory.mktemp("ca") / "ca.pem")
    made.cert_pem.write_to_path(made.file)
    return made
