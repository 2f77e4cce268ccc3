"""One replica's training process, without Ray: the loop's thread, the heartbeat, and what ties them together."""

from __future__ import annotations

import logging
import statistics
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raytide.elastic.member import Member
from raytide.elastic.messages import Heartbeat, LoopRaised, ToReplica
from raytide.train.membership import LoopExit, Membership, Wiring
from raytide.train.services import Outbox, SessionSpec
from raytide.train.session import Session

logger = logging.getLogger(__name__)

Loop = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Work:
    """What a replica has to do.

    Attributes:
        spec: Its part in the job.
        wiring: How groups connect.
        load_loop: Unpickles the loop; called in the loop's thread, so that an import error is the loop's.
        config: Argument of the loop.
        heartbeat_s: How often it reports.
        start_delay_s: Wait before the loop starts, for tests of slow starts.
    """

    spec: SessionSpec
    wiring: Wiring
    load_loop: Callable[[], Loop]
    config: dict[str, Any]
    heartbeat_s: float = 0.5
    start_delay_s: float = 0.0


class ReplicaRuntime:
    """Runs one replica.

    Args:
        work: What to do.
        outbox: Where messages go.
        on_exit: Called from the loop's thread when the replica is over.
    """

    def __init__(self, work: Work, outbox: Outbox, on_exit: Callable[[str], None]) -> None:
        self._work = work
        self._outbox = outbox
        self._on_exit = on_exit
        member = Member(work.spec.replica, has_state=False, applied=work.spec.position.step)
        self.membership = Membership(member, work.wiring, outbox.send)
        self.session = Session(work.spec, self.membership, outbox)
        self._over = threading.Event()
        name = f"{work.spec.job}/{work.spec.replica}"
        self._loop_thread = threading.Thread(target=self._run, name=f"{name}-loop", daemon=True)
        self._heart_thread = threading.Thread(target=self._beat, name=f"{name}-heart", daemon=True)

    def start(self) -> None:
        """Begin: returns at once."""
        self._heart_thread.start()
        self._loop_thread.start()

    def deliver(self, message: ToReplica) -> None:
        """Take a message of the master."""
        self.membership.deliver(message)

    def join(self, timeout_s: float) -> bool:
        """Wait for the loop's thread; False when it is still running."""
        self._loop_thread.join(timeout_s)
        return not self._loop_thread.is_alive()

    # --- loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        reason = "finished"
        try:
            self._over.wait(self._work.start_delay_s)
            self.session.activate()
            loop = self._work.load_loop()
            while True:
                loop(dict(self._work.config))
                if not self.session.finish():
                    break
        except LoopExit as leave:
            reason = str(leave)
        except BaseException:  # noqa: BLE001 - the loop's edge: whatever the user's code raised ends the job with its story
            reason = "the loop raised"
            self._outbox.send(LoopRaised(traceback.format_exc()))
        finally:
            self._over.set()
            self._close()
            self._on_exit(reason)

    def _close(self) -> None:
        try:
            self.session.close()
            self.membership.close()
        except Exception:  # the process ends anyway; its end must not hide the loop's
            logger.exception("closing %s", self._work.spec.replica)

    # --- heartbeat ---------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._over.wait(self._work.heartbeat_s):
            self._outbox.send(self.heartbeat())

    def heartbeat(self) -> Heartbeat:
        """What the loop is doing, right now."""
        session = self.session
        active = self.membership.member.active
        busy_s = list(session.engine.pace.busy_s)
        return Heartbeat(
            generation=active.number if active else 0,
            position=session.engine.position,
            place=session.place,
            waiting_for=session.place if self.membership.waiting else "",
            busy_s=statistics.median(busy_s) if busy_s else 0.0,
            steps_measured=session.engine.pace.steps_measured,
            step_s=session.engine.pace.step_s,
            samples_per_s=session.engine.pace.samples_per_s,
            batch=session.engine.pace.batch,
        )
