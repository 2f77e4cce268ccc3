from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from raytide.errors import ConfigError
from raytide.train.data import IndexLoader, LoaderOptions
from raytide.train.data.checks import check_batching, check_dataset, check_positive


class Endless(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        yield 1


class LengthOnly:
    def __len__(self) -> int:
        return 3


class UnknownLength(LengthOnly):
    def __len__(self) -> int:
        raise TypeError("streaming")

    def __getitem__(self, index: int) -> int:
        return index


def test_a_list_is_a_dataset():
    assert check_dataset([1, 2, 3]) == 3
    assert check_dataset(TensorDataset(torch.zeros(5, 2))) == 5


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Endless(), "no __len__.*ShardedStream"),
        (iter([1]), "list_iterator has no __len__ and no __getitem__"),
        (LengthOnly(), "LengthOnly has no __getitem__"),
        (UnknownLength(), "length is unknown .streaming."),
        ([], "no samples"),
        (None, "NoneType"),
    ],
)
def test_what_cannot_be_split_is_refused(dataset, message):
    with pytest.raises(ConfigError, match=message):
        check_dataset(dataset)
    with pytest.raises(ConfigError, match=message):
        IndexLoader(dataset, LoaderOptions())


@pytest.mark.parametrize("value", [0, -3])
def test_sizes_below_one_are_refused(value):
    with pytest.raises(ConfigError, match=f"global_batch_size: {value} is less than 1"):
        check_batching(10, value)
    with pytest.raises(ConfigError, match=f"max_local_batch: {value} is less than 1"):
        check_batching(10, 4, max_local_batch=value)


@pytest.mark.parametrize("value", [2.0, "8", None, True])
def test_sizes_are_whole_numbers(value):
    with pytest.raises(ConfigError, match="not a whole number"):
        check_positive("global_batch_size", value, "samples")


def test_an_epoch_without_a_step_is_refused():
    check_batching(10, 10, drop_last=True)
    check_batching(9, 10, drop_last=False)
    with pytest.raises(ConfigError, match="drop_last: the dataset has 9 samples"):
        check_batching(9, 10, drop_last=True)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_workers": -1}, "num_workers: -1"),
        ({"num_workers": 1.5}, "whole number"),
        ({"prefetch_factor": 0}, "prefetch_factor: 0"),
        ({"seed": -1}, "seed: -1"),
        ({"timeout_s": 0.0}, "timeout_s: 0.0 is not positive"),
        ({"timeout_s": float("nan")}, "not positive"),
        ({"collate_fn": 3}, "collate_fn: 3 cannot be called"),
        ({"worker_init_fn": "f"}, "cannot be called"),
    ],
)
def test_bad_loader_options_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        LoaderOptions(**setting)


def test_depth_is_the_batches_loaded_ahead():
    assert LoaderOptions().depth == 0
    assert LoaderOptions(num_workers=3, prefetch_factor=4).depth == 12
