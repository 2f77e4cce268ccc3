"""The ``raytide`` command. Importing it imports neither Ray nor PyTorch, so that help comes at once."""

from __future__ import annotations

import typer

from raytide.cli import (
    demo,
    doctor,
    jobs,
    nodes,
    requests,
    running,
    schema,
    simulate,
    submit,
    tenants,
    top,
    trace,
    up,
    watching,
)
from raytide.cli.options import WORDS

app = typer.Typer(
    name="raytide",
    help="Elastic training on Ray: PyTorch jobs that change their replica count while they train.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _example(line: str) -> str:
    return f"Example:  [bold]{line}[/bold]"


app.command(epilog=_example("raytide up --slot GPU=1 --policy tide"))(up.up)
app.command(epilog=_example("raytide down --keep-ray"))(up.down)
app.command(epilog=_example("raytide submit jobs/specs/digits.yaml --workers 1:8 --follow"))(submit.submit)
app.command(epilog=_example("raytide ls --tenant vision --ended 5"))(jobs.ls)
app.command(epilog=_example("raytide show digits"))(jobs.show)
app.command(epilog=_example("raytide logs -f digits"))(jobs.logs)
app.command(epilog=_example("raytide top"))(top.top)
app.command(epilog=_example("raytide pin digits"))(requests.pin)
app.command(epilog=_example("raytide cancel digits"))(requests.cancel)
app.command(epilog=_example("raytide run raytide.jobs.digits --workers 1:4 --epochs 40"))(running.run)
app.command(epilog=_example("raytide status digits"))(watching.status)
app.command(epilog=_example("raytide scale digits +2"), context_settings=WORDS)(requests.scale)
app.command(epilog=_example("raytide migrate digits 1 --to node-b"), context_settings=WORDS)(requests.migrate)
app.command(epilog=_example("raytide profile digits 1:4"), context_settings=WORDS)(requests.profile)
app.command(epilog=_example("raytide checkpoint digits"))(requests.checkpoint)
app.command(epilog=_example("raytide suspend digits"))(requests.suspend)
app.command(epilog=_example("raytide resume digits --workers 2"))(requests.resume)
app.command(epilog=_example("raytide events digits --follow"))(watching.events)
app.command(epilog=_example("raytide stop digits"))(requests.stop)
app.command(
    epilog=_example(
        "raytide simulate trace.csv --policy fifo,las2d --tenants tenants.yaml --faults mtbf=2d,repair=1h --seeds 3"
    )
)(simulate.simulate)
app.command(epilog=_example("raytide schema job > job.schema.json"))(schema.schema)
app.command(epilog=_example("raytide doctor --storage /nfs/raytide"))(doctor.doctor)
app.command(epilog=_example("raytide demo"))(demo.demo)

_policies = typer.Typer(help="See or change what decides on the platform.", no_args_is_help=True)
_policies.command("set", epilog=_example("raytide policy set elastic_tiresias"))(nodes.policy_set)
_policies.command("show", epilog=_example("raytide policy show"))(nodes.policy_show)
app.add_typer(_policies, name="policy")

_tenants = typer.Typer(help="Tenants of the platform: quotas and tokens.", no_args_is_help=True)
_tenants.command(epilog=_example("raytide tenant ls"))(tenants.ls)
_tenants.command("set", epilog=_example("raytide tenant set vision --guaranteed 8 --limit 16"))(tenants.put)
_tenants.command(epilog=_example("raytide tenant remove vision"))(tenants.remove)
_tenants.command(epilog=_example("raytide tenant token vision"))(tenants.token)
_tenants.command(epilog=_example("raytide tenant apply tenants.yaml --prune"))(tenants.apply)
app.add_typer(_tenants, name="tenant")

_nodes = typer.Typer(help="Nodes of the platform.", no_args_is_help=True)
_nodes.command(epilog=_example("raytide node ls"))(nodes.ls)
_nodes.command(epilog=_example("raytide node drain node-b"))(nodes.drain)
app.add_typer(_nodes, name="node")

_traces = typer.Typer(help="Make a synthetic trace, or see what is in one.", no_args_is_help=True)
_traces.command(epilog=_example("raytide trace generate --jobs 2000 --seed 1 trace.csv"))(trace.generate)
_traces.command(epilog=_example("raytide trace describe trace.csv --gpus 128"))(trace.describe)
app.add_typer(_traces, name="trace")
