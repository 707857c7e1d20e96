"""What all rooms' tests share: the hypothesis profile, and a way around a library's gap."""

from unittest.mock import Mock

import aiohttp
import pytest
from hypothesis import settings

from tests.stores import bucket, moto_server  # noqa: F401 - fixtures

settings.register_profile("cfetch", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("cfetch")


class MockedResponse(aiohttp.ClientResponse):
    """A reply for aioresponses, which does not know the ``stream_writer`` that aiohttp 3.14 asks for."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("stream_writer", Mock(output_size=0))
        super().__init__(*args, **kwargs)


@pytest.fixture
def mocked_response():
    """The ``response_class`` to give to aioresponses."""
    return MockedResponse
