"""Where one replica stands: in its job's membership, and in its own program. Shared by a session's parts."""

from __future__ import annotations

from raytide.elastic.member import HaltNow, Proceed, Rejoin
from raytide.elastic.model import Generation, Position
from raytide.errors import RaytideError
from raytide.train.carrier import StateCarrier
from raytide.train.membership import Membership
from raytide.train.registry import Registry
from raytide.train.services import SessionSpec
from raytide.train.stepping import Mode, StepEngine
from raytide.train.validation import Journal


class Standing:
    """One replica's standing.

    Args:
        spec: Its part in the job.
        membership: Its membership.

    Attributes:
        inert: Nothing the loop does counts: a newcomer rehearses, or one that was left behind runs on to
            where it can join.
        rehearsed: The loop has been through a first batch.
        place: What the loop is doing, for people.
    """

    def __init__(self, spec: SessionSpec, membership: Membership) -> None:
        self.spec = spec
        self.membership = membership
        self.registry = Registry()
        self.journal = Journal(spec.replica)
        self.engine = StepEngine(membership, self.registry)
        self.engine.position = spec.position
        self.engine.recover = lambda: self.settle(boundary=False)
        self.carrier = StateCarrier(self.registry, self.engine, self.journal, spec.device)
        self.inert = not spec.initial
        self.rehearsed = False
        self.place = "starting"

    def begin_at(self, position: Position) -> None:
        """The job begins here: nothing has been trained yet in this life of it."""
        self.engine.position = position
        self.membership.member.applied = position.step

    @property
    def generation(self) -> Generation | None:
        """The generation this replica is a member of."""
        return self.membership.member.active

    @property
    def rank(self) -> int:
        """Rank in the active generation; what one outside will be is not known: max_replicas.

        Before the first generation each of the first replicas may be rank 0, and is taken for it.
        """
        active = self.generation
        if active is None or self.spec.replica not in active.members:
            return self.spec.max_replicas if self.inert else 0
        return active.members.index(self.spec.replica)

    def settle(self, *, boundary: bool) -> Proceed | HaltNow | None:
        """Be a member of a healthy generation; None when this replica runs inertly to its next chance."""
        if self.generation is None and not self.inert:
            self._park()
        action = self.membership.settle(self.carrier, boundary=boundary)
        if isinstance(action, Rejoin):
            self.inert = True
            self.engine.begin_inert()
            return None
        return action

    def _park(self) -> None:
        self.place = "waiting to join"
        self.membership.park()

    def join(self) -> None:
        """A newcomer stands where it can become a member, and returns as one."""
        self.engine.finish()
        self.engine.begin_inert()
        while True:
            self._park()
            if not isinstance(self.membership.settle(self.carrier, boundary=False), Rejoin):
                break
        self.adopted()

    def adopted(self) -> None:
        """This replica is a member."""
        self.inert = False
        self.engine.leave_inert()

    def refuse_within_step(self, call: str) -> None:
        """Refuse what all ranks do together between the micro-batches of a step: their numbers differ.

        Raises:
            RaytideError: The batch at hand is not the last of its step.
        """
        if self.engine.mode is Mode.MICRO:
            raise RaytideError(
                f"{call} came behind a batch that does not end its step (it is split by max_local_batch or "
                "virtual_shards): do this only where get_context().ends_step is true"
            )
