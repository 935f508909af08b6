"""Results of the compiled module that are not there yet."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

# Importing these takes longer than importing this package.
if TYPE_CHECKING:
    from concurrent.futures import Future


def as_awaitable[T](future: "Future[T]") -> Awaitable[T]:
    """Return an awaitable of a future. Cancelling the awaitable stops the work."""
    import asyncio

    return asyncio.wrap_future(future)
