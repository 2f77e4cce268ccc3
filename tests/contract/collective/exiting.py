"""A member that ends without closing its group, beside one that never answers."""

from __future__ import annotations

import sys
import time

import torch

from raytide.collective import CollectiveError, CollectiveTimeout, GroupSpec, StoreAddress, connect

# Longer than the test waits for the end of the process.
LIMIT_S = 120.0


def main(rank: int, host: str, port: int, how: str) -> None:
    group = connect(GroupSpec(f"exit/{how}", rank, 2, StoreAddress(host, port), timeout_s=LIMIT_S))
    if rank == 1:
        time.sleep(LIMIT_S)
    work = group.all_reduce(torch.ones(4))
    try:
        work.wait(0.1)
    except CollectiveTimeout:
        print("in flight", flush=True)
    if how == "abort":
        group.abort("the end")
    try:
        work.wait(0.0)
    except CollectiveError as error:
        print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
