"""``tenant``: who may hand in jobs, and what they are guaranteed."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from raytide.cli import cluster
from raytide.cli.options import JsonOption
from raytide.cli.output import output
from raytide.errors import ConfigError, RequestRefused

if TYPE_CHECKING:
    from raytide.actors.platform import Platform
    from raytide.state import StoredTenant

TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="Its name.")]


def ls(as_json: JsonOption = False) -> None:
    """List tenants as a tree, with their quotas and what they hold."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        stored, usage = platform.tenants(), platform.info().usage
        documents = [_document(entry, usage) for entry in stored]
        out.show({"tenants": documents}, tenants_table(stored, usage))


def put(
    tenant: TenantArgument,
    parent: Annotated[str | None, typer.Option(help="The tenant it belongs to.")] = None,
    guaranteed: Annotated[int | None, typer.Option(metavar="N", help="Slots that it gets back from others.")] = None,
    limit: Annotated[str | None, typer.Option(metavar="N|none", help="Slots that it never exceeds.")] = None,
    weight: Annotated[float | None, typer.Option(help="Its share of what is left.")] = None,
    reclaim_after: Annotated[
        str | None, typer.Option(metavar="10m", help="A job that borrows runs at least this long.")
    ] = None,
    admin: Annotated[bool | None, typer.Option("--admin/--no-admin", help="Its token may do all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Add a tenant, or change the fields that are given."""
    with output(as_json=as_json) as out:
        from raytide.durations import parse_duration

        changes: dict[str, Any] = {"parent": parent, "guaranteed_gpus": guaranteed, "weight": weight}
        if reclaim_after is not None:
            changes["reclaim_after_s"] = (
                0.0 if reclaim_after == "0" else parse_duration("--reclaim-after", reclaim_after)
            )
        given = {name: value for name, value in changes.items() if value is not None} | parse_limit(limit)
        with cluster.platform() as platform:
            before = find(platform, tenant)
            after = replace(before, tenant=replace(before.tenant, **given))
            after = after if admin is None else replace(after, admin=admin)
            platform.put_tenant(after)
            usage = platform.info().usage
        out.show(_document(after, usage), tenants_table([after], usage))


def remove(tenant: TenantArgument, as_json: JsonOption = False) -> None:
    """Take out a tenant; its jobs go on as those of one without quota."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        platform.remove_tenant(tenant)
        out.show({"removed": tenant}, f"tenant {tenant} is removed, and its token is worth nothing")


def token(
    tenant: TenantArgument,
    save: Annotated[bool, typer.Option("--save", help="Make it this user's own, instead of showing it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a new token for a tenant: it is shown once, only its hash is kept, and the one before is void."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        from raytide.submission.access import hash_token, make_token
        from raytide.submission.local_token import save_token

        known = find(platform, tenant, must_exist=True)
        made = make_token()
        platform.put_tenant(replace(known, token_hash=hash_token(made)))
        if save:
            path = save_token(made, Path.home())
            out.show({"tenant": tenant, "path": str(path)}, f"saved in {path}")
            return
        out.say("shown once: give it to the tenant, who sets RAYTIDE_TOKEN or writes it to ~/.raytide/token (mode 600)")
        out.show({"tenant": tenant, "token": made}, made)


def apply(
    path: Annotated[Path, typer.Argument(metavar="TENANTS.yaml", help="`raytide schema tenants` has its fields.")],
    prune: Annotated[bool, typer.Option("--prune", help="Take out tenants that it does not list.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add and change the tenants of a file; one without a token's hash keeps the token it has."""
    with output(as_json=as_json) as out:
        listed = _read(path)
        with cluster.platform() as platform:
            for entry in listed:
                platform.put_tenant(entry)
            names = {entry.tenant.tenant for entry in listed}
            gone = [s.tenant.tenant for s in platform.tenants() if s.tenant.tenant not in names] if prune else []
            for name in gone:
                platform.remove_tenant(name)
            stored, usage = platform.tenants(), platform.info().usage
        document = {"tenants": [_document(entry, usage) for entry in stored], "removed": gone}
        out.show(document, tenants_table(stored, usage))


def parse_limit(text: str | None) -> dict[str, int | None]:
    """``8``, or ``none`` to lift it."""
    if text is None:
        return {}
    if text == "none":
        return {"limit_gpus": None}
    if not text.isdigit():
        raise ConfigError("--limit", f"{text!r} is no number of slots", "Write a number, or none")
    return {"limit_gpus": int(text)}


def find(platform: Platform, name: str, *, must_exist: bool = False) -> StoredTenant:
    """A tenant that is known, or a new one.

    Raises:
        RequestRefused: It must exist, and does not.
    """
    from raytide.core import Tenant
    from raytide.state import StoredTenant

    known = {stored.tenant.tenant: stored for stored in platform.tenants()}
    if must_exist and name not in known:
        raise RequestRefused(f"there is no tenant {name!r}: add it with `raytide tenant set {name}`")
    return known.get(name) or StoredTenant(Tenant(name))


def tenants_table(stored: Sequence[StoredTenant], usage: Mapping[str, int]) -> Table:
    """One line per tenant, below the one that it belongs to."""
    from raytide.cli.clock import length
    from raytide.cli.render import table

    numbers = ("holds", "guaranteed", "limit", "weight", "reclaims after")
    made = table("tenant", *numbers, "", numbers=numbers)
    for depth, entry in _tree(stored):
        tenant = entry.tenant
        made.add_row(
            "  " * depth + tenant.tenant,
            str(usage.get(tenant.tenant, 0)),
            str(tenant.guaranteed_gpus),
            "-" if tenant.limit_gpus is None else str(tenant.limit_gpus),
            f"{tenant.weight:g}",
            length(tenant.reclaim_after_s),
            Text("administrator" if entry.admin else "", style="cyan"),
        )
    return made


def _tree(stored: Sequence[StoredTenant]) -> list[tuple[int, StoredTenant]]:
    """Parents before their children, with how deep each is."""
    names = {entry.tenant.tenant for entry in stored}

    def below(parent: str, depth: int) -> list[tuple[int, StoredTenant]]:
        children = [s for s in stored if (s.tenant.parent if s.tenant.parent in names else "") == parent]
        return [pair for child in children for pair in ((depth, child), *below(child.tenant.tenant, depth + 1))]

    return below("", 0)


def _document(entry: StoredTenant, usage: Mapping[str, int]) -> dict[str, Any]:
    return {**asdict(entry.tenant), "admin": entry.admin, "holds": usage.get(entry.tenant.tenant, 0)}


def _read(path: Path) -> list[StoredTenant]:
    """The tenants of a file, parents first."""
    from raytide.state import StoredTenant
    from raytide.submission.tenantfile import parse_tenant_file

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(str(path), problem, "Give a file of tenants, see docs/job_files.md") from error
    listed = [StoredTenant(*entry) for entry in parse_tenant_file(text, str(path))]
    return [entry for _, entry in _tree(listed)]
