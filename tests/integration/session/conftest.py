"""Session tests run replicas as threads of the test process, without Ray."""

from __future__ import annotations

import contextlib
import ctypes
import os

# torch's TCPStore asks the name server for the name of every peer's address; an unanswered question costs 5 s.
os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
with contextlib.suppress(OSError, AttributeError):
    getattr(ctypes.CDLL(None), "__res_init")()
