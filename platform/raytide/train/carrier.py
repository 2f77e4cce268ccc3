"""What moves when a generation begins: the registered state, the position, and the program's place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from raytide.collective import Group
from raytide.elastic.model import Generation, Position
from raytide.train.captured import Captured, capture
from raytide.train.membership import Received
from raytide.train.registry import Registry
from raytide.train.stepping import StepEngine
from raytide.train.transfer import gather_objects, receive_state, send_state
from raytide.train.validation import Journal


@dataclass(frozen=True)
class Staged:
    """A received state that is not this replica's own yet."""

    value: dict[str, Any]

    @property
    def applied(self) -> int:
        return self.position.step

    @property
    def collectives(self) -> int:
        return 0

    @property
    def position(self) -> Position:
        position: Position = self.value["position"]
        return position


class StateCarrier:
    """Moves one replica's state.

    Args:
        registry: The registered objects.
        engine: The step in flight, rolled back before anything is sent.
        journal: Validation and user collectives.
        device: Where received tensors go.

    Attributes:
        load_initial: Loads the state the job starts from, once, into a replica that received none.
        extra_state, load_extra: Further plain state (stream offsets).
        on_adopted: Called when a generation begins.
    """

    def __init__(self, registry: Registry, engine: StepEngine, journal: Journal, device: torch.device) -> None:
        self._registry = registry
        self._engine = engine
        self._journal = journal
        self._device = device
        self._moved: Staged | None = None
        self.load_initial: Callable[[], None] = lambda: None
        self.extra_state: Callable[[], dict[str, Any]] = dict
        self.load_extra: Callable[[dict[str, Any]], None] = lambda extra: None
        self.on_adopted: Callable[[Generation], None] = lambda generation: None

    def capture(self, position: Position | None = None) -> Captured:
        """The state at the boundary; tensors alias the live objects."""
        self._engine.roll_back()
        return capture(
            {
                "state": self._registry.state(),
                "trainable": self._registry.trainable(),
                "position": position or self._engine.position,
                "stopped": self._engine.stopped,
                "stepwise": self._engine.stepwise,
                "calls": self._engine.calls_contained(),
                "extra": self.extra_state(),
            }
        )

    def send(self, group: Group) -> int:
        """Send this replica's state; the job's first state is loaded here if it comes from a checkpoint."""
        self.load_initial()
        return send_state(group, self.capture())

    def receive(self, group: Group) -> Staged:
        """Receive into new memory: a fence may yet forbid to use it."""
        return Staged(receive_state(group, self._device).value())

    def load(self, received: Received) -> None:
        """Make the received state this replica's own."""
        assert isinstance(received, Staged)
        self.load_value(received.value, "the state received from a member")
        self._moved = received

    def load_value(self, value: dict[str, Any], where: str) -> None:
        """Load a captured value.

        Raises:
            StateMismatch: It is that of other objects.
        """
        self._registry.load(value["state"], where)
        self._registry.set_trainable(value["trainable"])
        self.load_extra(value["extra"])
        self._engine.stopped = self._engine.stopped or value["stopped"]
        self._engine.stepwise = self._engine.stepwise and value["stepwise"]

    def gather(self, group: Group, generation: Generation) -> None:
        """Exchange what everybody has done of validation and user collectives."""
        records = gather_objects(group, self._journal.encode())
        self._journal.merge(dict(zip(generation.members, records, strict=True)))

    def adopted(self, generation: Generation, *, moved: bool) -> None:
        """A generation begins at this call point."""
        if not moved:
            self.load_initial()
            self._engine.membership_changed(generation, moved=False, position=self._engine.position)
        else:
            assert self._moved is not None
            position = self._moved.position
            contained = self._moved.value["calls"]
            self._engine.membership_changed(generation, moved=True, position=position, contained=contained)
            self._journal.takeover(position.step - 1)
        self._moved = None
        self.on_adopted(generation)
