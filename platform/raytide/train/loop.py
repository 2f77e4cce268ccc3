"""The functions a training loop calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from raytide.errors import ConfigError
from raytide.train.context import Context
from raytide.train.data import LoaderOptions
from raytide.train.feed import BatchOptions
from raytide.train.session import current_session


def prepare(*objects: Any) -> Any:
    """Register what takes part in the job's state, and make it elastic.

    Models go to the job's device and get gradient reduction; the ``step()`` of optimizers, schedulers and
    scalers acts once per global batch. Anything else with ``state_dict()`` and ``load_state_dict()`` is
    transferred as it is. Objects are changed in place.

    Returns:
        The same objects: a tuple, or the object itself if there is one only.

    Raises:
        ConfigError: An object has no state, or was prepared before.
    """
    current_session().prepare(objects)
    return objects[0] if len(objects) == 1 else objects


def epochs(total: int) -> Iterator[int]:
    """Iterate over the job's epochs, from where the job stands; one training ``batches()`` pass in each."""
    if total < 0:
        raise ConfigError("epochs(total)", f"{total} is negative", "Give the number of epochs")
    return current_session().epochs(total)


def batches(  # noqa: PLR0913 - the arguments of DataLoader, which users know
    dataset: Any,
    *,
    global_batch_size: int,
    train: bool = True,
    shuffle: bool = False,
    seed: int = 0,
    drop_last: bool = False,
    max_local_batch: int | None = None,
    equal_shares: bool = False,
    num_workers: int = 0,
    prefetch_factor: int = 2,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    pin_memory: bool = False,
    worker_init_fn: Callable[[int], None] | None = None,
) -> Iterator[Any]:
    """Iterate over this replica's part of every global batch, on the job's device.

    A *step* is one global batch; it is committed when the loop asks for the next one. Resizes happen in
    between. Each sample is used exactly once per epoch, in an order that depends on ``seed`` alone.
    Gradients are the whole step's on every rank and end with it: to accumulate over more samples, raise
    ``global_batch_size`` and set ``max_local_batch``.

    In a batch whose step fails the calls that end it do nothing, and its samples come again. So count steps
    with ``get_context().step``, not with variables of the loop.

    Args:
        dataset: Has ``__len__`` and ``__getitem__``, or is a :class:`~raytide.train.ShardedStream`.
        global_batch_size: Samples of one optimizer step, over all replicas. It stays the same when
            their number changes; unequal shares are weighted exactly.
        train: False for a validation pass: every rank runs it, every sample is seen by one of them, and no
            resize happens inside. What a rank had evaluated when it was lost is evaluated again.
        shuffle: A new order in every epoch.
        seed: Of the order, of augmentation, and of the random numbers of a step.
        drop_last: Leave out the last, incomplete step of an epoch.
        max_local_batch: Samples that fit into one replica at once; larger shares come as several
            batches of which only the last one's ``step()`` acts (``get_context().ends_step`` tells which).
        equal_shares: Refuse replica counts that do not divide the global batch.
        num_workers: Loader processes of each replica.
        prefetch_factor: Batches each of them loads ahead.
        collate_fn: Makes a batch of a list of samples.
        pin_memory: Load into page-locked memory.
        worker_init_fn: Called once in each loader process with its number.

    Raises:
        ConfigError: A size is impossible.
    """
    session = current_session()
    loader = LoaderOptions(
        num_workers=num_workers,
        prefetch_factor=prefetch_factor,
        collate_fn=collate_fn,
        pin_memory=pin_memory,
        worker_init_fn=worker_init_fn,
        seed=seed,
    )
    options = BatchOptions(global_batch_size, shuffle, drop_last, max_local_batch, equal_shares, loader)
    return session.train_batches(dataset, options) if train else session.eval_batches(dataset, options)


def report(metrics: Mapping[str, Any], *, checkpoint: bool = False) -> None:
    """Report metrics; every rank calls it, rank 0's values are kept.

    Args:
        metrics: Numbers by name; tensors with one element are fine.
        checkpoint: Save the job's state as it is here, beside training. Behind the last batch of an
            epoch, let this be the epoch's last statement: a restart goes on with the next epoch.
    """
    current_session().report(dict(metrics), checkpoint=checkpoint)


def get_context() -> Context:
    """The running loop's view of its job."""
    return Context(current_session())
