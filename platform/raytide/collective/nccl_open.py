"""Finding NCCL and opening a communicator; cupy is looked for only when a group wants it."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import torch

from raytide.collective.errors import BackendUnavailable
from raytide.collective.mesh import PeerWentAway
from raytide.collective.nccl import NcclTransport
from raytide.collective.rendezvous import POLL_S
from raytide.collective.spec import GroupSpec
from raytide.collective.store import KeyStore

REMEDY = "install what NCCL groups need with: pip install 'raytide[cuda12]'"
ID_KEY = "nccl/id"


def unavailable_reason() -> str:
    """Why NCCL groups cannot run in this process, with the remedy, or ``""``."""
    if not torch.cuda.is_available():
        return f"this process sees no CUDA device, or torch is a CPU build; {REMEDY}, or use backend 'gloo'"
    try:
        library = _library()
    except ImportError as error:
        return f"cupy's NCCL cannot be imported ({error}); {REMEDY}"
    if not getattr(library, "available", False):
        return f"cupy finds no NCCL library; {REMEDY}"
    return ""


def check_available(spec: GroupSpec) -> None:
    """Raises BackendUnavailable where NCCL groups cannot run."""
    reason = unavailable_reason()
    if reason:
        raise BackendUnavailable(spec.name, "connect", spec.rank, 0.0, reason)


def nccl_version() -> str:
    """The version of the NCCL library in use (``"2.30.7"``)."""
    number = int(_library().get_version())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def open_nccl(spec: GroupSpec, store: KeyStore, device: torch.device, stop: threading.Event) -> NcclTransport:
    """Opens a communicator with all members; blocks until they are there.

    Args:
        spec: The group; rank 0 makes the communicator's id.
        store: The group's part of the store, through which the id goes.
        device: The GPU of this member.
        stop: Ends the wait for the id.

    Raises:
        PeerWentAway: ``stop`` was set.
        RuntimeError: NCCL refused.
    """
    library = _library()
    torch.cuda.set_device(device)
    unique_id = _unique_id(library, spec, store, stop)
    return NcclTransport(library.NcclCommunicator(spec.world_size, unique_id, spec.rank), library, device)


def _unique_id(library: Any, spec: GroupSpec, store: KeyStore, stop: threading.Event) -> bytes:
    if spec.rank == 0:
        unique_id = library.get_unique_id()
        if not isinstance(unique_id, bytes):
            raise BackendUnavailable(spec.name, "connect", 0, 0.0, f"cupy is older than 14; {REMEDY}")
        store.set(ID_KEY, unique_id.hex())
        return unique_id
    while not store.check([ID_KEY]):
        if stop.wait(POLL_S):
            raise PeerWentAway("given up")
    return bytes.fromhex(store.get(ID_KEY).decode())


def _library() -> Any:
    # torch comes first: it has loaded the NCCL that cupy then shares.
    return importlib.import_module("cupy.cuda.nccl")
