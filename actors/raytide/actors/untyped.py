"""Ray's calls as untyped ones.

Ray's own type stubs know neither concurrency groups nor references of unknown types, and infer from them that
code behind ``ray.get`` cannot be reached. Values are annotated where they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import ray
from ray import cloudpickle

_ray: Any = ray
_cloudpickle: Any = cloudpickle


Handle = Any
"""An actor's handle."""

_F = TypeVar("_F", bound=Callable[..., Any])


def in_group(name: str) -> Callable[[_F], _F]:
    """``ray.method(concurrency_group=name)``, under which a method stays a method of its class."""
    decorator: Callable[[_F], _F] = _ray.method(concurrency_group=name)
    return decorator


def actor_class(kind: type, **options: Any) -> Any:
    """``ray.remote(**options)(kind)``."""
    return _ray.remote(**options)(kind)


def get(reference: Any, timeout_s: float | None = None) -> Any:
    """``ray.get`` of one reference."""
    return _ray.get(reference, timeout=timeout_s)


def nodes() -> list[dict[str, Any]]:
    """``ray.nodes()``."""
    found: list[dict[str, Any]] = _ray.nodes()
    return found


def free_resources() -> dict[str, dict[str, float]]:
    """Free resources by node id. Ray has no public call for what is free on each node."""
    free: dict[str, dict[str, float]] = _ray._private.state.available_resources_per_node()
    return free


def draining_nodes() -> set[str]:
    """Ids of the nodes that will go; Ray has no public call for them."""
    return set(_ray._private.state.state.get_draining_nodes())


def total_resources() -> dict[str, float]:
    """Resources of the whole cluster."""
    total: dict[str, float] = _ray.cluster_resources()
    return total


def group_of(hex_id: str) -> Any:
    """The placement group of this id, whatever namespace its name is in."""
    module: Any = import_module("ray.util.placement_group")  # a function of the same name hides it
    return module.PlacementGroup(module.PlacementGroupID.from_hex(hex_id))


def task_on(node: str, function: Callable[[], Any]) -> Any:
    """A task that runs on one node, and takes none of its resources."""
    return _ray.remote(num_cpus=0, label_selector={"ray.io/node-id": node})(function)


def find_actor(name: str, namespace: str) -> Handle | None:
    """The actor of this name; None if there is none."""
    try:
        return _ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def near(node: str) -> Any:
    """Scheduling strategy of an actor that shall be on a node; it is elsewhere when that node is gone."""
    module: Any = import_module("ray.util.scheduling_strategies")
    return module.NodeAffinitySchedulingStrategy(node, soft=True)


def this_node() -> str:
    """Id of the node of this process."""
    return str(_ray.get_runtime_context().get_node_id())


def head_node() -> str:
    """Id of the node with Ray's control service; of this one, if it is not to be seen."""
    found = [n["NodeID"] for n in nodes() if n["Alive"] and "node:__internal_head__" in n["Resources"]]
    return str(found[0]) if found else this_node()


def node_address() -> str:
    """IP address of this node."""
    return str(_ray.util.get_node_ip_address())


def last_address() -> str | None:
    """The address that ``ray start`` left for ``address="auto"``; Ray has no public call for it."""
    address: str | None = _ray._private.utils.read_ray_address()
    return address


def pickled(value: object) -> bytes:
    """``value`` with functions and classes of ``__main__`` by value."""
    return bytes(_cloudpickle.dumps(value))
