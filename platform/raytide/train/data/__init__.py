"""Data of elastic jobs: which samples a rank uses in a step, and loading them ahead.

The order of samples is a pure function of (seed, epoch), and a job owns one integer, the cursor: step k
uses the next ``global_batch_size`` samples, split over the ranks of that step. Nothing in here knows Ray,
process groups or how members are agreed on: memberships come in as values.
"""

from raytide.train.data.checks import check_batching, check_dataset
from raytide.train.data.errors import (
    DataLoadError,
    LoaderClosedError,
    SampleError,
    WorkerDiedError,
    WorkerTimeoutError,
)
from raytide.train.data.evaluation import (
    EvalProgress,
    eval_assignment,
    eval_batches,
    lost_batches,
    num_eval_batches,
)
from raytide.train.data.leases import Lease, LeaseTable, LeaseUpdate
from raytide.train.data.loader import IndexLoader
from raytide.train.data.options import LoaderOptions
from raytide.train.data.order import Order, epoch_order
from raytide.train.data.split import (
    LocalBatch,
    Share,
    check_equal_shares,
    global_batch,
    local_batches,
    micro_batches,
    shares,
)
from raytide.train.data.streams import ShardedStream, StreamReader

__all__ = [
    "DataLoadError",
    "EvalProgress",
    "IndexLoader",
    "Lease",
    "LeaseTable",
    "LeaseUpdate",
    "LoaderClosedError",
    "LoaderOptions",
    "LocalBatch",
    "Order",
    "SampleError",
    "ShardedStream",
    "Share",
    "StreamReader",
    "WorkerDiedError",
    "WorkerTimeoutError",
    "check_batching",
    "check_dataset",
    "check_equal_shares",
    "epoch_order",
    "eval_assignment",
    "eval_batches",
    "global_batch",
    "local_batches",
    "lost_batches",
    "micro_batches",
    "num_eval_batches",
    "shares",
]
