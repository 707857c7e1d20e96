"""Handles cancellations that are meant for one transfer and not for the worker that has it in hand."""

import asyncio


def was_the_move() -> bool:
    """Whether the move of the transfer alone caused this cancellation.

    The handler of the cancellation asks this.
    """
    task = asyncio.current_task()
    assert task is not None
    return not task.uncancel()


async def let_pass() -> None:
    """Catch the cancellation of a moved transfer that had ended by itself before the cancellation came."""
    task = asyncio.current_task()
    assert task is not None
    if task.cancelling():
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if task.uncancel():
                raise
