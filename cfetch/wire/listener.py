"""The end of a server: no connection that a client is just opening stays open unseen."""

import asyncio


async def close_listener(server: asyncio.Server) -> None:
    """Close ``server``; every connection that it has accepted is known to its protocol afterwards.

    asyncio accepts a connection first, and a task of its own makes the transport later. A server that ends
    in between refuses the transport, and the accepted socket is lost while it is open. Therefore the server
    stops accepting first, and is closed once these tasks are done. A connection that nobody has accepted yet
    is closed by the system, with the listening socket.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    # asyncio has no public name for these tasks; a test of the wire pins this one.
    tasks = [
        task
        for task in asyncio.all_tasks()
        if getattr(task.get_coro(), "__name__", "") == "_accept_connection2"
    ]
    try:
        if tasks:
            await asyncio.wait(tasks)
    finally:
        server.close()
