"""Ports, the cluster that runs, its clocks, and its authentication."""

from __future__ import annotations

from collections.abc import Sequence

from raytide.doctor.facts import Clock, Port, RayCluster
from raytide.doctor.findings import Finding, bad, ok, warn

NOTED_SKEW_S, BAD_SKEW_S = 0.5, 5.0
"""Logs of several nodes no longer tell what came first; deadlines and accounts are wrong."""
ADDRESS_FILE = "/tmp/ray/ray_current_cluster"  # noqa: S108 - where Ray itself puts it


def check_ports(ports: Sequence[Port]) -> list[Finding]:
    """The ports of Ray's head."""
    return [_port(port) for port in ports]


def _port(port: Port) -> Finding:
    what = f"port {port.port}"
    if not port.is_taken:
        return ok(what, f"free ({port.use})")
    if port.is_ray:
        return ok(what, f"Ray answers ({port.use})")
    remedy = f"Stop what listens there (ss -ltnp 'sport = :{port.port}'), or give Ray another port"
    return warn(what, f"taken, and not by a Ray that answers ({port.use})", remedy)


def check_cluster(cluster: RayCluster) -> Finding:
    """Whether the cluster that drivers would connect to is alive."""
    if not cluster.address:
        return ok("cluster", "none runs here")
    if cluster.is_left_behind:
        remedy = f"Run ray stop, and remove {ADDRESS_FILE} if it is still there"
        detail = f"a dead one left its address behind ({cluster.address}): drivers wait for it, ray start refuses"
        return warn("cluster", detail, remedy)
    if not cluster.answers:
        remedy = "Look at its logs in /tmp/ray/session_latest/logs, and at RAY_ADDRESS and RAY_AUTH_MODE"
        return bad("cluster", f"{cluster.address} does not answer", remedy)
    if cluster.failure:
        return bad("cluster", f"{cluster.address}: {cluster.failure}", "See that this Python and Ray are the cluster's")
    return ok("cluster", f"{cluster.address} answers")


def check_auth(cluster: RayCluster) -> Finding:
    """Whether drivers and ``ray start`` agree on token authentication.

    With ``RAY_AUTH_MODE`` unset, ``ray start`` turns it on if it finds a token. A driver does not, and is refused.
    """
    mode = None if cluster.auth_mode is None else cluster.auth_mode.lower()
    if mode not in (None, "token", "disabled"):
        return bad("authentication", f"RAY_AUTH_MODE={cluster.auth_mode} is unknown", "Set it to token or disabled")
    if mode == "token" and not cluster.has_token:
        detail = "RAY_AUTH_MODE=token, and there is no token"
        return bad("authentication", detail, "Run ray get-auth-token --generate, or copy ~/.ray/auth_token of the head")
    if cluster.demands_token and mode != "token":
        detail = "the cluster demands tokens, and RAY_AUTH_MODE is not token: connecting fails after a minute"
        return bad("authentication", detail, "Run export RAY_AUTH_MODE=token")
    if mode is None and cluster.has_token:
        detail = "RAY_AUTH_MODE is not set, and there is a token: ray start will demand it, drivers will not send it"
        return warn("authentication", detail, "Run export RAY_AUTH_MODE=token, or =disabled, in every shell")
    return ok("authentication", "by token" if mode == "token" else "off: whoever reaches the ports may run code")


def check_clocks(cluster: RayCluster) -> list[Finding]:
    """The nodes' clocks; one finding if all agree."""
    wrong = [clock for clock in cluster.clocks if _surely_ahead_s(clock) > NOTED_SKEW_S]
    if not wrong:
        count = len(cluster.clocks)
        return [ok("clocks", f"those of {count} nodes agree" if count > 1 else "no other node to compare with")]
    return [_wrong_clock(clock) for clock in wrong]


def _wrong_clock(clock: Clock) -> Finding:
    way = "ahead" if clock.ahead_s > 0 else "behind"
    detail = f"{clock.node} is {abs(clock.ahead_s):.1f} s {way} (give or take {clock.uncertain_s:.1f} s)"
    level = bad if _surely_ahead_s(clock) > BAD_SKEW_S else warn
    return level("clocks", detail, f"Start chrony or systemd-timesyncd on {clock.node}")


def _surely_ahead_s(clock: Clock) -> float:
    """Its difference at least, either way."""
    return abs(clock.ahead_s) - clock.uncertain_s
