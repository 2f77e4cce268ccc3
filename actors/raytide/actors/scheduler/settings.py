"""How a platform is set up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from raytide.core import Costs
from raytide.errors import ConfigError

DEFAULT_STORE = "sqlite:///~/.raytide/platform.db"
LIVE_COSTS = Costs(start_s=5.0, resume_s=5.0, resize_s=1.0)
"""A newcomer starts while the others train; a start from nothing imports PyTorch first."""


@dataclass(frozen=True)
class PlatformSettings:
    """What a scheduler is started with.

    Attributes:
        store: Database URL of its state.
        policy: How many slots each job has, until it is set to another one.
        placer: Where they are.
        slot: Ray resources of one slot.
        most_slots: Slots that an autoscaler can give the cluster: jobs up to this size are taken in, and nodes are
            asked for when they wait. None for a cluster that stays as it is.
        costs: What changes cost a job.
        admin_sha256: Hash of the first administrator's token, for a store that has no administrator yet.
        standbys: Warm processes on each node.
    """

    store: str = DEFAULT_STORE
    policy: str = "tide"
    placer: str = "pack"
    slot: Mapping[str, float] = field(default_factory=lambda: {"GPU": 1.0})
    most_slots: int | None = None
    costs: Costs = LIVE_COSTS
    admin_sha256: str = ""
    standbys: int = 0

    def __post_init__(self) -> None:
        if not self.slot or any(amount <= 0 for amount in self.slot.values()):
            raise ConfigError("slot", f"{dict(self.slot)} holds nothing", "Give amounts above 0, GPU=1 for example")
        if self.standbys < 0:
            raise ConfigError("standbys", f"{self.standbys} is negative", "Give 0 or more")

    def setup(self, policy: str) -> str:
        """What a round of this scheduler can be replayed with, as JSON text."""
        return json.dumps({"policy": policy, "placer": self.placer, "most_gpus": self.most_slots, **_costs(self.costs)})


def _costs(costs: Costs) -> dict[str, float]:
    known: dict[str, float] = asdict(costs)
    return known
