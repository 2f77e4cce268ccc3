"""Session tests run replicas as threads of the test process, without Ray."""

from __future__ import annotations

import os

# torch's TCPStore asks for the name of every peer's address; where no name server answers, that costs 5 s each.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
