"""Ending what may block: objects whose destructors join threads are dropped by daemon threads.

The destructor of a gloo process group waits for its operations in flight, which end with their own time
limit at the latest; a thread here therefore ends at most that much later, and nobody waits for it.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
import weakref
from typing import Any

EXIT_LIMIT_S = 1.0

_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class Owned:
    """The only strong reference to an object whose destructor may block."""

    def __init__(self, value: Any) -> None:
        self.value = value
        _owned.add(self)

    def retire(self) -> threading.Thread | None:
        """Drops the object in a daemon thread. Returns at once; a second call does nothing."""
        if self.value is None:
            return None
        box, self.value = [self.value], None
        return in_background(box.clear, "raytide-retire")

    def __del__(self) -> None:
        self.retire()


_owned: weakref.WeakSet[Owned] = weakref.WeakSet()


def in_background(call: Any, name: str) -> threading.Thread | None:
    """Runs ``call`` in a daemon thread; returns it, or ``None`` while the interpreter is shutting down."""
    thread = threading.Thread(target=call, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # No new threads at shutdown: the process is about to end, and to leak is better than to block.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(call))
        return None
    _threads.add(thread)
    return thread


@atexit.register
def _leave_quickly() -> None:
    """Waits a moment for retirements; makes immortal what is still owned, so that exit never blocks on it."""
    for owned in list(_owned):
        if owned.value is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned.value))
    deadline = time.monotonic() + EXIT_LIMIT_S
    for thread in list(_threads):
        thread.join(max(0.0, deadline - time.monotonic()))
