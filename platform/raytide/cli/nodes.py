"""``node`` and ``policy``: the cluster's nodes, and what decides about them."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from raytide.cli import cluster
from raytide.cli.options import JsonOption
from raytide.cli.output import output

if TYPE_CHECKING:
    from raytide.actors.scheduler.info import NodeInfo


def ls(as_json: JsonOption = False) -> None:
    """List nodes with their slots, and which jobs hold them."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        from raytide.cli.platform_document import node_document

        nodes = platform.info().nodes
        out.show({"nodes": [node_document(node) for node in nodes]}, nodes_table(nodes))


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its name, or the beginning of its id.")],
    as_json: JsonOption = False,
) -> None:
    """Place nothing on a node any more, and move away what is there."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        found = platform.drain(node)
        held = next((known.held for known in platform.info().nodes if known.node == found), ())
        jobs = [job for job, _ in held]
        left = f"; {', '.join(jobs)} will leave it" if jobs else ", and empty"
        out.show({"node": found, "jobs": jobs}, Text.assemble((f"{node}: ", "bold"), f"draining{left}"))


def nodes_table(nodes: Sequence[NodeInfo]) -> Table | Text:
    """One line per node."""
    from raytide.cli.render import table

    if not nodes:
        return Text("no node has a slot")
    numbers = ("slots", "free", "others")
    made = table("node", "id", "type", *numbers, "state", "jobs", numbers=numbers)
    made.columns[-1].no_wrap = False
    for node in nodes:
        free = node.slots - node.taken - sum(slots for _, slots in node.held)
        state = Text("open", style="green") if node.open else Text("draining", style="yellow")
        jobs = ", ".join(f"{job} {slots}" for job, slots in node.held)
        numbers_ = (str(node.slots), str(max(0, free)), str(node.taken))
        made.add_row(node.name, node.node[:8], node.gpu_type, *numbers_, state, jobs)
    return made


def policy_show(as_json: JsonOption = False) -> None:
    """Show the policy that decides, and those that could."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        from raytide.policies.registry import policy_names

        info = platform.info()
        said = Text.assemble((info.policy, "bold"), f", placed by {info.placer}\n", ("known: ", "dim"))
        said.append(", ".join(policy_names()))
        out.show({"policy": info.policy, "placer": info.placer, "known": list(policy_names())}, said)


def policy_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in `raytide policy show`, or package.module:Class.")],
    as_json: JsonOption = False,
) -> None:
    """Schedule by another policy from now on; jobs go on."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        platform.set_policy(name)
        info = platform.info()
        said = Text.assemble((info.policy, "bold"), f" decides from now on; {len(info.jobs)} jobs go on")
        out.show({"policy": info.policy, "jobs": len(info.jobs)}, said)
