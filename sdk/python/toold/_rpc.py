"""How both clients send requests. The logic of the clients is written once, as coroutines (toold.aio); a transport sends the requests.

The coroutines of Blocking never suspend, so run() and iterate() execute the same logic without an event loop.
"""
from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

import grpc

from .errors import TooldError
from .reasons import NotToold, VersionMismatch
from .v1 import admin_service_pb2 as admin
from .version import __version__, mismatch

T = TypeVar("T")
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Transport(Protocol):
    async def unary(self, method: Any, request: Any, **options: Any) -> Any: ...

    def stream(self, method: Any, request: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """Yields the responses. Closing the generator ends the stream."""

    async def sleep(self, seconds: float, probe: Callable[..., Any] | None = None) -> None:
        """`probe` is a cheap request that makes grpc reconnect at once. Callers pass it only while the daemon cannot be reached."""


class Blocking:
    async def unary(self, method: Any, request: Any, **options: Any) -> Any:
        return method(request, **options)

    async def stream(self, method: Any, request: Any, **options: Any) -> AsyncGenerator[Any, None]:
        call = method(request, **options)
        try:
            for response in call:
                yield response
        finally:
            call.cancel()

    async def sleep(self, seconds: float, probe: Callable[..., Any] | None = None) -> None:
        end = time.monotonic() + seconds
        if probe:  # grpc connects at once while a request waits for the connection, and otherwise only every 5 s
            try:
                probe(admin.GetInfoRequest(), timeout=seconds, wait_for_ready=True)
            except grpc.RpcError:
                pass
        time.sleep(max(0.0, end - time.monotonic()))


class Asyncio:
    async def unary(self, method: Any, request: Any, **options: Any) -> Any:
        return await method(request, **options)

    async def stream(self, method: Any, request: Any, **options: Any) -> AsyncGenerator[Any, None]:
        call = method(request, **options)
        try:
            async for response in call:
                yield response
        finally:
            call.cancel()

    async def sleep(self, seconds: float, probe: Callable[..., Any] | None = None) -> None:
        await asyncio.sleep(seconds)


def run(awaitable: Awaitable[T]) -> T:
    """Returns the result of a coroutine that never suspends."""
    coroutine: Coroutine[Any, Any, T] = awaitable  # type: ignore[assignment]
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise TypeError("a callback of toold.Client is a coroutine function; use an ordinary function, or toold.aio.Client")


def iterate(generator: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yields the items of an asynchronous generator that never suspends."""
    try:
        while True:
            try:
                item = run(generator.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(generator.aclose())


async def check_version(transport: Transport, stub: Any, **options: Any) -> None:
    """Checks with the stub of AdminService that the server is toold, in a version that serves this package."""
    try:
        info = await transport.unary(stub.GetInfo, admin.GetInfoRequest(), **options)
    except grpc.RpcError as e:
        if e.code() != grpc.StatusCode.UNIMPLEMENTED:
            raise
        raise NotToold(grpc.StatusCode.UNIMPLEMENTED, "the server at this address is not toold") from e
    todo = mismatch(info.version)
    if todo:
        raise VersionMismatch(
            grpc.StatusCode.FAILED_PRECONDITION, f"the daemon has version {info.version}, and the package toold {__version__}: {todo}")


class Retry:
    """The pauses between attempts, and the time limit, of one method. The pauses grow, unless the daemon says how long to wait."""

    def __init__(self, patience: float, timeout: float | None = None, *, renews: bool = False) -> None:
        """`renews` says that the next request may have a new token."""
        self.renews = renews
        self.patience, self.end = patience, None if timeout is None else time.monotonic() + timeout
        self.reset()

    def reset(self) -> None:
        self.error: TooldError | None = None
        self.pause, self.since = 0.1, 0.0

    def left(self) -> float | None:
        """Returns the seconds up to the time limit, or None if there is no limit. After the limit, it raises DEADLINE_EXCEEDED."""
        if self.end is None:
            return None
        left = self.end - time.monotonic()
        if left <= 0:
            raise TooldError(grpc.StatusCode.DEADLINE_EXCEEDED, "no response within the time limit") from self.error
        return left

    def after(self, error: TooldError) -> float:
        """Returns the pause after a temporary error if it ends within the patience, and raises any other error."""
        now = time.monotonic()
        self.since, self.error = self.since or now, error
        if error.retry_after is None and error.code not in UNAVAILABLE and not (self.renews and error.reason == "TOKEN_EXPIRED"):
            raise error
        wait = error.retry_after * random.uniform(1, 1.2) if error.retry_after and error.retry_after > 0 else self.next()
        if now + wait > self.since + self.patience:
            raise error
        return wait if self.end is None else max(0.0, min(wait, self.end - now))

    def next(self) -> float:
        pause, self.pause = self.pause, min(2 * self.pause, 5.0)
        return pause * random.uniform(0.8, 1.2)
