"""What every transport does alike: a suite that the tests of an adapter or a double inherit.

A test module derives a class from ``TransportContract`` and gives it a ``world`` fixture, a ``World``.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl
from cfetch.wire.transport import Response, Transport

SIZE_BYTES = 300_000
WHOLE = "whole"  # a file of SIZE_BYTES
BROKEN = "broken"  # the same, but its connection is reset after half of them
REFUSED = "refused"  # 404
Scene = Callable[[Transport], Awaitable[Any]]


class World(Protocol):
    """A server, or what stands in for one, and a transport that asks it."""

    body: bytes

    def url(self, file: str) -> str:
        """The URL of one of the files above."""

    def play(self, scene: Scene) -> Any:
        """Run a scene in the loop that the transport needs, and close the transport."""


async def rest_of(response: Response) -> bytes:
    """All bytes that are still to come."""
    pieces = []
    while data := await response.read():
        pieces.append(data)
    return b"".join(pieces)


class TransportContract:
    """``world`` is a fixture."""

    @staticmethod
    async def ask(transport: Transport, world: World, file: str = WHOLE, **how: Any) -> Response:
        headers = how.pop("headers", {})
        return await transport.open(SecretUrl(world.url(file)), headers, {}, **{"fresh": False} | how)

    def test_a_body_is_read_to_its_end(self, world):
        """Piece by piece, over a kept or a fresh connection; the end is an empty one."""

        async def scene(transport):
            found = []
            for fresh in (False, True):
                response = await self.ask(transport, world, fresh=fresh)
                found.append((response.status, await rest_of(response)))
                assert await response.read() == b""
            return found

        assert world.play(scene) == [(200, world.body)] * 2

    def test_a_head_states_size_and_validator(self, world):
        """Under the names that the judge uses; the address of the peer is a text, if it is known."""

        async def scene(transport):
            response = await self.ask(transport, world)
            response.close()
            return response

        response = world.play(scene)
        assert response.headers.getall("Content-Length", []) == [str(SIZE_BYTES)]
        (etag,) = response.headers.getall("ETag", [])
        assert etag.startswith('"')
        assert response.headers.getall("X-Unknown", []) == []
        assert response.peer is None or response.peer

    def test_a_range_brings_the_rest(self, world):
        """As 206, with the place of its bytes."""

        async def scene(transport):
            response = await self.ask(transport, world, headers={"Range": "bytes=100000-"})
            return response, await rest_of(response)

        response, data = world.play(scene)
        assert (response.status, data) == (206, world.body[100_000:])
        (place,) = response.headers.getall("Content-Range", [])
        assert place == f"bytes 100000-{SIZE_BYTES - 1}/{SIZE_BYTES}"

    def test_a_range_of_the_version_that_was_seen_brings_the_rest(self, world):
        """Under its strong ETag; of another version the whole file comes."""

        async def scene(transport):
            first = await self.ask(transport, world)
            first.close()
            replies = []
            for etag in (*first.headers.getall("ETag", []), '"another"'):
                asked = {"Range": "bytes=100000-", "If-Range": etag}
                reply = await self.ask(transport, world, headers=asked)
                replies.append((reply.status, len(await rest_of(reply))))
            return replies

        assert world.play(scene) == [(206, SIZE_BYTES - 100_000), (200, SIZE_BYTES)]

    def test_who_asks_for_few_bytes_gets_no_more(self, world):
        """Whatever has arrived; what is left comes later."""

        async def scene(transport):
            response = await self.ask(transport, world)
            few = await response.read(1000)
            return bytes(few), bytes(few) + await rest_of(response)

        few, data = world.play(scene)
        assert 0 < len(few) <= 1000
        assert data == world.body

    def test_what_has_arrived_is_had_without_waiting(self, world):
        """With what is read before and after, it is the body."""

        async def scene(transport):
            response = await self.ask(transport, world)
            data = bytes(await response.read(1000)) + response.read_buffered()
            return data + await rest_of(response)

        assert world.play(scene) == world.body

    def test_a_reply_that_was_broken_off_harms_no_other(self, world):
        """In its middle, and twice; nor does one at its end."""

        async def scene(transport):
            for most in (1000, -1):
                response = await self.ask(transport, world)
                await response.read(most)
                response.close()
                response.close()
            response = await self.ask(transport, world)
            data = await rest_of(response)
            response.close()
            return data

        assert world.play(scene) == world.body

    def test_a_broken_connection_is_transient(self, world):
        """What came before is had."""

        async def scene(transport):
            response = await self.ask(transport, world, BROKEN)
            sizes = []
            try:
                while data := await response.read():
                    sizes.append(len(data))
            except Transient as error:
                response.close()
                return response.status, sum(sizes), error
            return response.status, sum(sizes), None

        status, size_bytes, error = world.play(scene)
        assert status == 200
        assert 0 < size_bytes < SIZE_BYTES
        assert error is not None

    def test_what_a_server_refuses_is_a_reply(self, world):
        """No error: it is the judge who says what a status means."""

        async def scene(transport):
            response = await self.ask(transport, world, REFUSED)
            response.close()
            return response.status

        assert world.play(scene) == 404

    def test_many_replies_come_at_once(self, world):
        """Each is read by whoever asked for it."""

        async def scene(transport):
            responses = [await self.ask(transport, world) for _ in range(4)]
            return [await rest_of(response) for response in responses]

        assert world.play(scene) == [world.body] * 4
