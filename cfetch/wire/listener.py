"""The end of a server: no connection that a client is just opening stays open unseen."""

import asyncio

TURNS_TO_ACCEPT = (
    2  # of the loop: an accepted connection gets its transport in one, and its protocol in the next
)


async def close_listener(server: asyncio.Server) -> None:
    """Close ``server``; every connection that it has accepted is known to its protocol afterwards.

    asyncio accepts a connection in one turn of its loop and makes its transport in the next. A server that is
    closed in between refuses the transport, and the accepted socket is lost while it is open. Therefore the
    server stops accepting first, and is closed once its last connections have their protocols.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    for _ in range(TURNS_TO_ACCEPT):
        await asyncio.sleep(0)
    server.close()
