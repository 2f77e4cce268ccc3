"""Checks of what a user passes for data, made before anything starts."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from raytide.errors import ConfigError


@runtime_checkable
class MapDataset(Protocol):
    """A dataset with an index, in torch's words a map-style dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def check_dataset(dataset: Any, field: str = "dataset") -> int:
    """Return the length of a dataset with an index.

    Raises:
        ConfigError: It has no length or no index, or is empty.
    """
    missing = [name for name in ("__len__", "__getitem__") if not hasattr(type(dataset), name)]
    if missing:
        raise ConfigError(
            field,
            f"{type(dataset).__name__} has no {' and no '.join(missing)}, so it has no order to split",
            "Pass a map-style dataset, or ShardedStream for data that can only be read in sequence.",
        )
    try:
        length = len(dataset)
    except (TypeError, NotImplementedError) as error:
        raise ConfigError(field, f"its length is unknown ({error})", "Make __len__ return a number.") from error
    if length < 1:
        raise ConfigError(field, "it has no samples", "Pass at least one sample (is the path right?).")
    return length


def check_positive(field: str, value: Any, unit: str) -> int:
    """Return ``value`` if it is an integer of at least 1.

    Raises:
        ConfigError: It is not.
    """
    return check_at_least(field, value, 1, unit)


def check_at_least(field: str, value: Any, least: int, unit: str) -> int:
    """Return ``value`` if it is an integer of at least ``least``.

    Raises:
        ConfigError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(field, f"{value!r} is not a whole number", f"Give a number of {unit}.")
    if value < least:
        raise ConfigError(field, f"{value} is less than {least}", f"Give at least {least} {unit}.")
    return value


def check_batching(
    length: int, global_batch_size: int, *, max_local_batch: int | None = None, drop_last: bool = False
) -> None:
    """Check the sizes of a training pass over ``length`` samples.

    Raises:
        ConfigError: A size below 1, or ``drop_last`` would drop every sample.
    """
    check_positive("global_batch_size", global_batch_size, "samples")
    if max_local_batch is not None:
        check_positive("max_local_batch", max_local_batch, "samples")
    if drop_last and length < global_batch_size:
        raise ConfigError(
            "drop_last",
            f"the dataset has {length} samples, less than one batch of {global_batch_size}, "
            "so an epoch would have no step",
            "Use a smaller global_batch_size, or drop_last=False.",
        )
