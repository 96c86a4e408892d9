"""SIGTERM and Ctrl-C end a run at the next optimiser step, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import attrs


@attrs.define
class StopRequest:
    """Set by a signal handler, read by the loop between two steps.

    Attributes:
        signal: the signal that came, or ``None``.
    """

    signal: signal.Signals | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn SIGTERM and SIGINT into a stop request while inside; a second signal acts as usual.

    Python delivers signals to the main thread alone, so inside another thread the request is never set.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        request.signal = signal.Signals(number)
        signal.signal(number, before[request.signal])

    try:
        for number in before:
            signal.signal(number, handle)
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
