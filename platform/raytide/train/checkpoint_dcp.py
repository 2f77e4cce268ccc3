"""Tensors of a checkpoint through torch.distributed.checkpoint.

Kept apart because importing it takes seconds: replicas pay them with their first checkpoint, in its thread.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from raytide.train.checkpoint_place import Place

# torch.distributed.checkpoint is used through its storage and planner interfaces. Its save() and load() are
# these same calls behind collectives; they would warn about the missing process group, and wrap every error
# in a BaseException.


def save_tensors(place: Place, tensors: dict[str, Tensor]) -> None:
    """Write ``tensors`` by name into ``place``."""
    # No copy-ahead: it would use the stream that training uses. Remote files have nothing to fsync.
    writer = FsspecWriter(place.url, sync_files=place.is_local, per_thread_copy_ahead=0)
    planner = DefaultSavePlanner(flatten_state_dict=False)
    planner.set_up_planner(tensors, writer.storage_meta(), is_coordinator=True)
    writer.set_up_storage_writer(True)
    local = writer.prepare_local_plan(planner.create_local_plan())
    plans, metadata = planner.create_global_plan([local])
    plan = planner.finish_plan(writer.prepare_global_plan(plans)[0])
    writer.finish(metadata, [writer.write_data(plan, planner).wait()])


def load_tensors(place: Place, wanted: set[int]) -> tuple[Tensor, ...]:
    """Read the tensors with these numbers; the others come back empty."""
    reader = FsspecReader(place.url)
    metadata = reader.read_metadata()
    specs = metadata.state_dict_metadata
    tensors = {str(i): _empty(specs[str(i)]) for i in wanted}
    planner = DefaultLoadPlanner(flatten_state_dict=False)
    planner.set_up_planner(tensors, metadata, is_coordinator=True)
    reader.set_up_storage_reader(metadata, True)
    local = reader.prepare_local_plan(planner.create_local_plan())
    plans = planner.create_global_plan([local])
    plan = planner.finish_plan(reader.prepare_global_plan(plans)[0])
    reader.read_data(plan, planner).wait()
    absent = torch.empty(0)
    return tuple(tensors.get(str(i), absent) for i in range(len(specs)))


def _empty(spec: Any) -> Tensor:
    if not isinstance(spec, TensorStorageMetadata):
        raise TypeError(f"expected a tensor, found {type(spec).__name__}")
    return torch.empty(spec.size, dtype=spec.properties.dtype)
