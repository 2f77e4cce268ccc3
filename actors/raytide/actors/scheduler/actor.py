"""The scheduler's actor: what clients, masters and people call. It decides nothing itself."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from raytide.actors.scheduler.adoption import first_events, open_commands
from raytide.actors.scheduler.autoscaling import Autoscaling, RayGroups
from raytide.actors.scheduler.book import Book
from raytide.actors.scheduler.demand import Needs, needs
from raytide.actors.scheduler.engine import Engine
from raytide.actors.scheduler.exporter import Exporter
from raytide.actors.scheduler.gate import Gate
from raytide.actors.scheduler.info import JobInfo, NodeInfo, PlatformInfo, ended_job, live_job, live_jobs, node_infos
from raytide.actors.scheduler.masters import RayMasters
from raytide.actors.scheduler.nodes import Cluster, NodeWatch
from raytide.actors.scheduler.settings import PlatformSettings
from raytide.actors.scheduler.warm import WarmPool
from raytide.actors.scheduler.work import Terms
from raytide.actors.status import JobStatus
from raytide.actors.untyped import actor_class, in_group
from raytide.core import Controller, ControllerConfig, JobSpec, TenantTree
from raytide.core.events import (
    BoundsChanged,
    CancelRequested,
    Event,
    NodeDraining,
    ResumeRequested,
    SuspendRequested,
    TenantsChanged,
)
from raytide.core.model import JobId
from raytide.errors import RequestRefused
from raytide.policies.registry import make_placer, make_policy
from raytide.state import NewJob, StateError, StateStore, StoredTenant, Work
from raytide.submission.access import Caller

logger = logging.getLogger(__name__)

WRITTEN_S = 60.0
OPEN_RETRY_S = 1.0
LEAVE_S = 0.5
LEASES_S = 2.0
KEPT_INCARNATIONS, KEPT_ENDED_S = 20, 90 * 86_400.0
"""What is older is forgotten when a scheduler starts: recorded rounds, and jobs that ended."""


@dataclass(frozen=True)
class Submission:
    """A job as a client hands it in.

    Attributes:
        key: The client's own; the same submission said twice is one job.
        spec: What the scheduler has to know. An empty tenant is the caller's; the time is set on arrival.
        work: What its master has to know.
    """

    key: str
    spec: JobSpec
    work: Work


class Scheduler:
    """Runs the platform of one Ray cluster.

    Args:
        settings: How it is set up. A restarted actor gets the same ones, and finds its state in the store.
    """

    def __init__(self, settings: PlatformSettings) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self._settings = settings
        self._store = _open(settings.store)
        self._gate = Gate(self._store, settings.admin_sha256)
        policy = self._store.setting("policy") or settings.policy
        self._incarnation = self._store.begin_incarnation(settings.setup(policy))
        self._store.prune(KEPT_INCARNATIONS, time.time() - KEPT_ENDED_S)
        saved = self._store.load()
        config = ControllerConfig(most_gpus=settings.most_slots, costs=settings.costs)
        controller = Controller(make_policy(policy), make_placer(settings.placer), (), self._gate.tree, config)
        self._engine = Engine(controller, self._store, self._incarnation, RayMasters())
        for row, work in saved.jobs:
            self._engine.book.restore(row, work)
        cluster = Cluster(settings.slot, self._confined)
        seen = cluster.look()
        events = first_events(saved, list(seen.nodes.values()), self._gate.tree)
        self._engine.begin(events, saved.now_s)
        running = [row.spec.job for row, _ in saved.jobs if not row.request and row.past.state == "running"]
        self._engine.say_again(open_commands(saved), running)
        self._watch = NodeWatch(cluster.look, replace(seen, draining=frozenset(), taken={}), self._tell)
        threading.Thread(target=self._engine.run, name="raytide-scheduler", daemon=True).start()
        threading.Thread(target=self._watch.run, name="raytide-nodes", daemon=True).start()
        self._warm = WarmPool(settings.standbys, lambda: [node.node for node in self._nodes() if node.open])
        threading.Thread(target=self._warm.run, name="raytide-standbys", daemon=True).start()
        threading.Thread(target=self._cancel_orphans, name="raytide-leases", daemon=True).start()
        exporter = Exporter(self.platform, self._engine.ticks)
        threading.Thread(target=exporter.run, name="raytide-metrics", daemon=True).start()
        if settings.most_slots is not None:
            autoscaling = Autoscaling(self._needs, RayGroups(settings.slot))
            threading.Thread(target=autoscaling.run, name="raytide-demand", daemon=True).start()

    def _needs(self) -> Needs:
        most = self._settings.most_slots or 0
        return self._engine.look(lambda controller, _: needs(controller, most, time.time()))

    def _cancel_orphans(self) -> None:
        """Jobs end some time after the processes that wait for them; for a thread of its own."""
        while True:
            time.sleep(LEASES_S)
            for job in self._engine.look(lambda _, book: book.orphans(time.monotonic())):
                logger.warning("job %s: its owner is gone; cancelled", job)
                self._engine.tell(CancelRequested(job))

    def _tell(self, events: Sequence[Event]) -> None:
        self._engine.tell(*events)

    def _confined(self) -> Counter[str]:
        """Slots by node of jobs that place their own workers."""

        def count(controller: Controller, book: Book) -> Counter[str]:
            found: Counter[str] = Counter()
            for name, page in book.pages.items():
                if page.terms.confined:
                    found.update(dict(controller.table.cluster.placement(name).gpus))
            return found

        return self._engine.look(count)

    def _owned(self, token: str, job: JobId, what: str) -> JobInfo:
        """A job that has not ended, for a caller who may change it."""
        info = self._find(job)
        self._gate.tenant(token, info.tenant, f"{what} of job {job}")
        if info.ended:
            raise RequestRefused(f"job {job} has {info.state}")
        return info

    # --- calls of clients --------------------------------------------------------------------

    @in_group("submit")
    def submit(self, token: str, submission: Submission) -> JobInfo:
        """Take in a job; returns when that is on disk. A job that can never run is refused, with the reason.

        Raises:
            AccessDenied: The token is not that of the tenant, or of one above it.
            RaytideError: The name is taken.
        """
        tenant = self._gate.tenant(token, submission.spec.tenant, "submission")
        spec = replace(submission.spec, tenant=tenant, submitted_s=time.time())
        _wait(self._engine.submit(NewJob(spec, submission.work, submission.key)))
        return self._find(self._engine.submissions[submission.key])

    @in_group("calls")
    def cancel(self, token: str, job: JobId) -> None:
        """End a job; its slots are free when it has left."""
        self._owned(token, job, "cancel")
        _wait(self._engine.tell(CancelRequested(job)))

    @in_group("calls")
    def suspend(self, token: str, job: JobId) -> None:
        """Save a job and let it rest until it is resumed."""
        self._owned(token, job, "suspend")
        _wait(self._engine.tell(SuspendRequested(job)))

    @in_group("calls")
    def resume(self, token: str, job: JobId) -> None:
        """Let a job that rests wait for its turn."""
        self._owned(token, job, "resume")
        _wait(self._engine.tell(ResumeRequested(job)))

    @in_group("calls")
    def scale(self, token: str, job: JobId, least: int, most: int) -> None:
        """Give a job other bounds, inside those it was submitted with.

        Raises:
            RequestRefused: They are outside, or no range.
        """
        info, terms = self._owned(token, job, "scale"), self._terms(job)
        if not terms.least <= least <= most <= terms.most:
            submitted = f"{terms.least}:{terms.most}"
            raise RequestRefused(f"{least}:{most} is no range inside {submitted}, with which job {job} was submitted")
        _wait(self._engine.tell(BoundsChanged(job, least, most, info.preemptible)))

    @in_group("calls")
    def pin(self, token: str, job: JobId, *, pinned: bool = True) -> None:
        """Leave a job as it is: no other size, and no suspension for others; or leave it to the policy again.

        Raises:
            RequestRefused: It holds nothing that it could keep.
        """
        info = self._owned(token, job, "pin")
        terms = self._terms(job)
        least, most = (info.count, info.count) if pinned else (terms.least, terms.most)
        if not least:
            raise RequestRefused(f"job {job} is {info.state} and holds nothing that it could keep")
        _wait(self._engine.tell(BoundsChanged(job, least, most, not pinned)))

    def _terms(self, job: JobId) -> Terms:
        return self._engine.look(lambda _, book: book.pages[job].terms)

    @in_group("calls")
    def set_policy(self, token: str, name: str) -> None:
        """Schedule by another policy from now on. The scheduler starts anew with it; jobs go on.

        Raises:
            ConfigError: There is none of this name.
        """
        self._gate.admin(token, "policy set")
        make_policy(name)
        self._store.put_setting("policy", name)
        threading.Timer(LEAVE_S, os._exit, args=(1,)).start()

    @in_group("calls")
    def put_tenant(self, token: str, stored: StoredTenant) -> None:
        """Add a tenant, or change one; without a token's hash it keeps the one it has.

        Raises:
            ConfigError: The tree would make no sense.
        """
        self._gate.admin(token, "tenant set")
        known = {s.tenant.tenant: s for s in self._store.tenants()}
        before = known.get(stored.tenant.tenant)
        if before is not None and not stored.token_hash:
            stored = replace(stored, token_hash=before.token_hash)
        TenantTree([s.tenant for s in {**known, stored.tenant.tenant: stored}.values()])
        self._store.put_tenant(stored)
        self._tenants_changed()

    @in_group("calls")
    def remove_tenant(self, token: str, tenant: str) -> None:
        """Take out a tenant; its jobs go on as those of one without quota.

        Raises:
            RequestRefused: There is none, or it is the last administrator.
        """
        self._gate.admin(token, "tenant remove")
        known = {s.tenant.tenant: s for s in self._store.tenants()}
        if tenant not in known:
            raise RequestRefused(f"there is no tenant {tenant!r}; known: {', '.join(sorted(known))}")
        rest = [s for name, s in known.items() if name != tenant]
        if not any(s.admin for s in rest):
            raise RequestRefused(f"{tenant} is the last administrator: make another one first")
        TenantTree([s.tenant for s in rest])
        self._store.remove_tenant(tenant)
        self._tenants_changed()

    def _tenants_changed(self) -> None:
        self._gate.reload()
        _wait(self._engine.tell(TenantsChanged(self._gate.tree)))

    @in_group("calls")
    def drain(self, token: str, node: str) -> str:
        """Place nothing on a node any more and move away what is there; returns its id.

        Raises:
            RequestRefused: There is none of this name, or several.
        """
        self._gate.admin(token, "node drain")
        infos = self._nodes()
        found = [n.node for n in infos if n.name == node] or [n.node for n in infos if n.node.startswith(node)]
        if len(found) != 1:
            raise RequestRefused(f"{len(found)} nodes are called {node!r}; known: {', '.join(n.name for n in infos)}")
        _wait(self._engine.tell(NodeDraining(found[0])))
        return found[0]

    @in_group("calls")
    def close(self, token: str) -> None:
        """The platform is to be shut down: says whether the caller may do that."""
        self._gate.admin(token, "down")

    def _nodes(self) -> tuple[NodeInfo, ...]:
        return self._engine.look(lambda controller, _: node_infos(controller))

    # --- questions, which everybody may ask --------------------------------------------------

    @in_group("views")
    def job(self, job: JobId) -> JobInfo:
        """One job.

        Raises:
            RequestRefused: There is none of this name.
        """
        return self._find(job)

    def _find(self, job: JobId) -> JobInfo:
        info = self._engine.look(lambda controller, book: live_job(controller, book, job))
        if info is not None:
            return info
        row = self._store.job(job)
        if row is None:
            raise RequestRefused(f"there is no job {job!r}")
        return ended_job(row, self._store.work(job))

    @in_group("views")
    def jobs(self, tenant: str | None = None, ended: int = 0) -> list[JobInfo]:
        """Jobs that have not ended, then the newest ``ended`` ones that have."""
        live = self._engine.look(live_jobs)
        names = {info.job for info in live}
        rows = self._store.jobs(tenant=tenant, limit=ended + len(live)) if ended else []
        over = [ended_job(row) for row in rows if row.spec.job not in names and row.past.ended_s is not None]
        return [*(info for info in live if tenant in (None, info.tenant)), *over[:ended]]

    @in_group("views")
    def platform(self) -> PlatformInfo:
        """Everything at one instant."""

        def look(controller: Controller, book: Book) -> PlatformInfo:
            return PlatformInfo(
                controller.policy.name,
                controller.placer.name,
                self._incarnation,
                self._engine.tick_s,
                node_infos(controller),
                tuple(live_jobs(controller, book)),
                dict(controller.table.usage),
                dict(self._settings.slot),
            )

        return self._engine.look(look)

    @in_group("views")
    def tenants(self) -> list[StoredTenant]:
        """All tenants, without their tokens."""
        return [replace(stored, token_hash="") for stored in self._store.tenants()]

    @in_group("views")
    def standbys(self) -> dict[str, int]:
        """Warm processes by node."""
        return dict(self._warm.counts())

    @in_group("views")
    def whoami(self, token: str) -> Caller:
        """Whose token it is."""
        return self._gate.caller(token, "whoami")

    @in_group("views")
    def pid(self) -> int:
        """Process id of the scheduler."""
        return os.getpid()

    @in_group("views")
    def owner_lives(self, job: JobId) -> None:
        """The owner of a job still waits for it."""
        page = self._engine.look(lambda _, book: book.pages.get(job))
        if page is not None:
            page.owner_seen_s = time.monotonic()

    # --- calls of masters --------------------------------------------------------------------

    @in_group("status")
    def claim_standby(self, node: str) -> str:
        """The name of a warm process on a node, which is the caller's from now on; empty if none is ready."""
        return self._warm.claim(node)

    @in_group("status")
    def status(self, status: JobStatus) -> None:
        """A job's master tells how it stands. One that lost processes may have lost a node."""
        known = self._engine.look(lambda _, book: book.size_of(status.job))
        if status.world_size < known:
            self._watch.poke()
        self._engine.status(status)


def _open(url: str) -> StateStore:
    """The store, as soon as it answers: an actor that gave up here would not be started again."""
    while True:
        try:
            return StateStore(url)
        except StateError:
            logger.exception("waiting for the state store")
            time.sleep(OPEN_RETRY_S)


def _wait(written: Future[None]) -> None:
    try:
        written.result(WRITTEN_S)
    except TimeoutError:
        raise RequestRefused(f"the scheduler did not write it down within {WRITTEN_S:.0f} s: try again") from None


SchedulerActor = actor_class(
    Scheduler,
    concurrency_groups={"submit": 64, "calls": 16, "views": 16, "status": 8},
    num_cpus=0,
    max_restarts=-1,
    max_task_retries=0,
)
