"""Elastic training: what a training script imports.

Names follow Ray Train. A loop prepares its objects, iterates over :func:`epochs` and :func:`batches`, and is
plain PyTorch in between; :class:`ElasticTrainer` runs it on a number of replicas that may change any time.
"""

from raytide.train.checkpoint import Checkpoint
from raytide.train.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from raytide.train.context import Context
from raytide.train.data import ShardedStream
from raytide.train.granted import granted_nodes
from raytide.train.handle import JobHandle
from raytide.train.loop import batches, epochs, get_context, prepare, report
from raytide.train.result import RequestCost, Result
from raytide.train.trainer import ElasticTrainer

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "Context",
    "ElasticTrainer",
    "FailureConfig",
    "JobHandle",
    "RequestCost",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "ShardedStream",
    "batches",
    "epochs",
    "get_context",
    "granted_nodes",
    "prepare",
    "report",
]
