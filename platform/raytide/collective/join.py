"""The steps of a connect: reach the store, announce, wait for all, lifelines, gloo, and NCCL where wanted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import torch

from raytide.collective import nccl_open
from raytide.collective.fate import Fate
from raytide.collective.gloo import open_gloo
from raytide.collective.group import Group
from raytide.collective.lifeline import Lifeline
from raytide.collective.mesh import Doorbell, PeerWentAway
from raytide.collective.rendezvous import addresses, announce, wait_for_all
from raytide.collective.spec import GroupSpec
from raytide.collective.store import KeyStore, open_store, reach

MIN_STEP_S = 0.05


class Joining:
    """One member's connect in progress, as both of its threads see it.

    Args:
        spec: The group.
        limit_at: When the connect is over, in monotonic seconds.
    """

    def __init__(self, spec: GroupSpec, limit_at: float) -> None:
        self.spec = spec
        self.limit_at = limit_at
        self.missing = list(range(spec.world_size))
        self.given_up = threading.Event()
        self.device = _device(spec)
        self._lifeline: Lifeline | None = None
        self._lock = threading.Lock()

    def left_s(self) -> float:
        """Seconds until the limit; a short while at least, because zero means "for ever" to some callees."""
        return max(MIN_STEP_S, self.limit_at - time.monotonic())

    def attach(self, lifeline: Lifeline) -> None:
        """Makes the lifeline visible to the calling thread; closes it at once after ``leave``."""
        with self._lock:
            self._lifeline = lifeline
            given_up = self.given_up.is_set()
        if given_up:
            lifeline.leave("CollectiveAborted", "connect was given up")

    def who_left(self) -> str:
        """What is known about a member that left meanwhile, or ``""``. Never blocks."""
        farewell = None if self._lifeline is None else self._lifeline.look()
        return "" if farewell is None else f"rank {farewell.rank} left: {farewell.detail}"

    def leave(self, reason: str) -> None:
        """Tells members that have arrived, so that they need not wait for their own limit."""
        with self._lock:
            lifeline = self._lifeline
        if lifeline is not None:
            lifeline.leave("CollectiveAborted", reason)


def open_group(joining: Joining) -> Group:
    """Runs all steps; blocks. Raises what they raise, and PeerWentAway once the connect was given up."""
    spec = joining.spec
    host = spec.host
    route = reach(spec.store, joining.limit_at, joining.given_up)
    store = open_store(spec.store, spec.name, joining.left_s())
    lifeline = _lifeline(joining, store, host or route)
    joining.attach(lifeline)
    fate = Fate(lifeline)
    control_spec = replace(spec, host=host or route, backend="gloo")
    control = Group(control_spec, open_gloo(control_spec, store, joining.left_s()), fate)
    if spec.backend == "gloo":
        if not spec.own_control:
            return control
        beside = open_store(spec.store, f"{spec.name}/data", joining.left_s())
        return Group(control_spec, open_gloo(control_spec, beside, joining.left_s()), fate, control)
    assert joining.device is not None
    transport = nccl_open.open_nccl(spec, store, joining.device, joining.given_up)
    return Group(spec, transport, fate, control)


def _device(spec: GroupSpec) -> torch.device | None:
    if spec.backend != "nccl":
        return None
    return torch.device("cuda", torch.cuda.current_device() if spec.device is None else spec.device)


def _lifeline(joining: Joining, store: KeyStore, host: str) -> Lifeline:
    spec = joining.spec
    doorbell = Doorbell(host, spec.name, spec.world_size)
    try:
        announce(store, spec, doorbell.address)
        if not wait_for_all(store, joining.missing, joining.given_up):
            raise PeerWentAway("given up")
        everybody = addresses(store, spec.world_size)
        return doorbell.connect(spec.rank, everybody, joining.limit_at, joining.given_up)
    finally:
        doorbell.close()
