"""Closes a server so that no connection that a client is just opening is lost while open."""

import asyncio


async def close_listener(server: asyncio.Server) -> None:
    """Close ``server``; after this its protocol knows every connection that was accepted.

    asyncio accepts a connection first, and a separate task makes the transport later. A server that ends in
    between refuses the transport, and the accepted socket is lost while it is open. Therefore the server
    first stops accepting, and is closed when these tasks are done. The system closes connections that are not
    accepted yet, with the listening socket.
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
