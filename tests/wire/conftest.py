"""What the tests of the network need made once, and the event loop that they run in."""

import asyncio
import os
from typing import Any

import pytest
import trustme
import uvloop

if os.environ.get("TEST_LOOP") == "uvloop":  # the gate runs the tests of the wire in both loops
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A CA, and the setting that makes it trusted."""
    made: Any = trustme.CA()
    made.file = str(tmp_path_factory.mktemp("ca") / "ca.pem")
    made.cert_pem.write_to_path(made.file)
    return made
