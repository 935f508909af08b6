"""Results that are not there yet."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

# Importing these takes longer than importing this package.
if TYPE_CHECKING:
    from concurrent.futures import Future


def as_awaitable[T](future: "Future[T]") -> Awaitable[T]:
    """Return an awaitable of a future. Cancelling the awaitable stops the work."""
    import asyncio

    return asyncio.wrap_future(future)


class Arrivals[T]:
    """A queue to which any thread may add, for the event loop in which it is made."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T] = asyncio.Queue()

    def put(self, one: T) -> None:
        """Add one. Does nothing if the loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, one)

    async def get(self) -> T:
        """Wait for one."""
        return await self._queue.get()
