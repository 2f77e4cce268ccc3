"""``up`` and ``down``: the platform of a Ray cluster."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from raytide.cli import cluster
from raytide.cli.head import Head, known_head, start_head, stop_head
from raytide.cli.options import JsonOption
from raytide.cli.output import Output, output
from raytide.errors import AccessDenied, ConfigError

if TYPE_CHECKING:
    from raytide.actors.platform import Platform
    from raytide.actors.scheduler.info import PlatformInfo
    from raytide.actors.scheduler.settings import PlatformSettings

DEFAULT_STORE = "sqlite:///~/.raytide/platform.db"
_SQLITE = "sqlite:///"


def up(  # noqa: PLR0913, PLR0917 - the options of the command
    policy: Annotated[str, typer.Option(help="How many slots each job has.")] = "tide",
    placer: Annotated[str, typer.Option(help="Where they are.")] = "pack",
    store: Annotated[str, typer.Option(metavar="URL", help="Database of the platform's state.")] = DEFAULT_STORE,
    slot: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="Ray resources of one slot; repeatable.  [default: GPU=1, or CPU=1]"),
    ] = None,
    most_slots: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Slots to which an autoscaler can grow the cluster.")
    ] = None,
    standbys: Annotated[int, typer.Option(metavar="N", min=0, help="Warm processes on each node.")] = 0,
    port: Annotated[int, typer.Option(min=0, help="Of a Ray head that is started; 0 takes a free one.")] = 6379,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Start Ray's dashboard with a head.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Start the platform on the Ray cluster that runs, or on one that is started on this machine."""
    with output(as_json=as_json) as out:
        from raytide.policies.registry import make_placer, make_policy

        make_policy(policy), make_placer(placer)
        chosen = parse_slot(slot or [])
        head = reach(out, port, dashboard=dashboard)
        with cluster.connected():
            from raytide.actors.scheduler.settings import PlatformSettings
            from raytide.actors.untyped import total_resources

            settings = PlatformSettings(
                store=prepared_store(store),
                policy=policy,
                placer=placer,
                slot=chosen or default_slot(total_resources()),
                most_slots=most_slots,
                standbys=standbys,
            )
            platform, said = begin(settings)
            info = platform.info()
        out.show(
            {"policy": info.policy, "slot": dict(info.slot), "nodes": len(info.nodes), "slots": slots(info)}
            | {"head": head and head.address, "token": said},
            up_text(info, head, said),
        )


def reach(out: Output, port: int, *, dashboard: bool) -> Head | None:
    """See that there is a cluster to connect to; the head, if ``up`` has started it, now or before."""
    import ray

    from raytide.actors.launcher import find_cluster

    home = Path.home()
    cluster.match_authentication(os.environ, home)
    if ray.is_initialized():
        return None
    if find_cluster() is not None:
        return known_head(home)
    out.say("no Ray cluster runs: starting one on this machine")
    head = start_head(home, port=port, dashboard=dashboard)
    os.environ["RAY_ADDRESS"] = head.address
    return head


def begin(settings: PlatformSettings) -> tuple[Platform, str]:
    """Start the scheduler, or find the one that runs; returns what is to be said of the user's token."""
    from dataclasses import replace

    from raytide.actors.names import has_scheduler
    from raytide.actors.platform import Platform, start_platform
    from raytide.submission.access import hash_token, make_token
    from raytide.submission.local_token import local_token, save_token, token_path

    home = Path.home()
    token = local_token(os.environ, home)
    if has_scheduler():
        return Platform(token), "the platform ran already: nothing was changed"
    made = not token
    if made:
        token = make_token()
        save_token(token, home)  # before it counts: a token that is lost would lock everybody out
    start_platform(replace(settings, admin_sha256=hash_token(token)))
    platform = Platform(token)
    try:
        caller = platform.whoami()
    except AccessDenied:
        if made:
            token_path(home).unlink()
        return platform, "the store has tenants already, and yours is none of their tokens: set RAYTIDE_TOKEN"
    where = "RAYTIDE_TOKEN" if os.environ.get("RAYTIDE_TOKEN") else str(token_path(home))
    return platform, f"{where} ({'administrator' if caller.admin else f'tenant {caller.tenant}'})"


def down(
    keep_ray: Annotated[bool, typer.Option("--keep-ray", help="Leave the Ray head that `up` started.")] = False,
    as_json: JsonOption = False,
) -> None:
    """End the platform and its jobs, and the Ray head if `up` started it; what is in the store stays."""
    with output(as_json=as_json) as out:
        with cluster.platform() as platform:
            running = [job.job for job in platform.info().jobs]
            platform.shut_down()
        head = None if keep_ray else known_head(Path.home())
        if head is not None:
            stop_head(head, Path.home())
        said = [
            "the platform is down",
            f"jobs that had not ended: {', '.join(running)}; the next `raytide up` queues them again"
            if running
            else "",
            f"the Ray head at {head.address} is down" if head else "Ray goes on",
        ]
        document = {"down": True, "jobs": running, "head": head and head.address}
        out.show(document, Text("\n".join(line for line in said if line)))


def parse_slot(texts: Sequence[str]) -> dict[str, float]:
    """``GPU=1 CPU=4``."""
    found = {}
    for text in texts:
        name, _, amount = text.partition("=")
        try:
            found[name.strip()] = float(amount)
        except ValueError:
            problem = f"{text!r} is no resource with its amount"
            raise ConfigError("--slot", problem, "Write GPU=1, and --slot once more for another resource") from None
    return found


def default_slot(resources: Mapping[str, float]) -> dict[str, float]:
    """A GPU where the cluster has one, and else a CPU."""
    return {"GPU": 1.0} if resources.get("GPU", 0) >= 1 else {"CPU": 1.0}


def prepared_store(url: str) -> str:
    """The URL from everywhere, of a file in a folder that exists."""
    if not url.startswith(_SQLITE):
        return url
    path = Path(url.removeprefix(_SQLITE)).expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"the folder of {path} cannot be made: {error.strerror or error}"
        raise ConfigError("--store", problem, "Give a file in a folder of your own") from error
    return f"{_SQLITE}{path}"


def slots(info: PlatformInfo) -> int:
    """How many there are."""
    return sum(node.slots for node in info.nodes)


def slot_text(slot: Mapping[str, float]) -> str:
    """``GPU=1 CPU=4``."""
    return " ".join(f"{name}={amount:g}" for name, amount in slot.items())


def plural(count: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def up_text(info: PlatformInfo, head: Head | None, token: str) -> Text:
    """What is up, and what to do with it."""
    rows = [
        ("policy", f"{info.policy}, placed by {info.placer}"),
        ("slots", f"{slots(info)} of {slot_text(info.slot)} on {plural(len(info.nodes), 'node')}"),
        ("ray", f"{head.address}, started by raytide (log: {head.log})" if head else "the cluster that ran already"),
        ("token", token),
    ]
    if info.jobs:
        rows.append(("jobs", f"{len(info.jobs)} of before are queued again"))
    if not info.nodes:
        rows.append(("warning", f"no node has {slot_text(info.slot)}: no job can run yet"))
    lines = [Text.assemble((f"{name:<8}", "dim"), value) for name, value in rows]
    steps = [
        "raytide submit jobs/specs/digits.yaml --follow",
        "raytide top",
        "raytide tenant set vision --guaranteed 2",
    ]
    shown = Text("\n").join(
        [
            Text("raytide is up", style="bold green"),
            *lines,
            Text("next", style="dim"),
            *(Text(f"  {step}") for step in steps),
        ]
    )
    shown.no_wrap, shown.overflow = True, "ignore"  # paths are copied from here
    return shown
