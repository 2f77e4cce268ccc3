"""One lane per job: what concerns one job happens in order, and a slow job holds up no other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from raytide.core.model import JobId

Step = Callable[[], None]


class Lanes:
    """Runs steps in threads, one per job that has something to do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[JobId, deque[Step]] = {}

    def put(self, job: JobId, step: Step) -> None:
        """Run a step after those that the job has already; it must not raise."""
        with self._lock:
            lane = self._waiting.get(job)
            if lane is not None:
                lane.append(step)
                return
            self._waiting[job] = deque([step])
        threading.Thread(target=self._run, args=(job,), name=f"raytide-lane-{job}", daemon=True).start()

    def _run(self, job: JobId) -> None:
        while True:
            with self._lock:
                lane = self._waiting[job]
                if not lane:
                    del self._waiting[job]
                    return
                step = lane.popleft()
            step()
