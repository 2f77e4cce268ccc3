"""Jobs of several tenants on a real platform: quotas, resizes, suspension, and every sample once."""

from __future__ import annotations

import pytest

from raytide.core import Tenant
from raytide.errors import AccessDenied, JobFailed, RequestRefused
from raytide.state import StoredTenant
from raytide.submission.access import hash_token, make_token
from raytide.train import ElasticTrainer, RunConfig, ScalingConfig
from support import loops, ray_jobs
from support.platform import go, running_platform, submit, trains, until


def test_two_tenants_share_a_cluster(cluster, tmp_path):
    with running_platform(tmp_path) as platform:
        platform.put_tenant(StoredTenant(Tenant("vision", limit_gpus=2)))
        submit(platform, tmp_path, "a", (1, 8), tenant="vision")
        assert trains(platform, "a", 2).tenant == "vision"  # its limit, although eight slots are free
        assert platform.info().usage["vision"] == 2
        submit(platform, tmp_path, "gang", 3, tenant="speech")
        trains(platform, "gang", 3)
        platform.scale("a", 1, 1)
        trains(platform, "a", 1)
        platform.suspend("a")
        resting = until(platform, "a", lambda info: info.state == "suspended", "suspension")
        assert (resting.reason, resting.nodes) == ("suspended by its owner", ())
        platform.resume("a")
        trains(platform, "a", 1)
        go(tmp_path, "a")
        go(tmp_path, "gang")
        assert [platform.wait(name, 60.0).state for name in ("a", "gang")] == ["succeeded", "succeeded"]
        for name in ("a", "gang"):
            ray_jobs.assert_samples_once(tmp_path / name)


def test_who_may_do_what(cluster, tmp_path):
    with running_platform(tmp_path, most_slots=64) as platform:
        token, other = make_token(), make_token()
        platform.put_tenant(StoredTenant(Tenant("lab"), hash_token(token)))
        platform.put_tenant(StoredTenant(Tenant("group", parent="lab"), hash_token(other)))
        boss, member, nobody = (type(platform)(word) for word in (token, other, "rt_wrong"))
        submit(member, tmp_path, "waits", 64)  # more than there is now
        assert platform.job("waits").tenant == "group"
        with pytest.raises(AccessDenied, match="the token is no tenant's"):
            nobody.cancel("waits")
        with pytest.raises(AccessDenied, match="is for administrators; this token is tenant lab's"):
            boss.set_policy("fifo")
        with pytest.raises(AccessDenied, match="submission: tenant lab is not this token's, which is tenant group's"):
            submit(member, tmp_path, "above", 1, tenant="lab")
        assert nobody.job("waits").state == "pending"  # public
        with pytest.raises(RequestRefused, match="there is no job 'ghost'"):
            boss.cancel("ghost")
        submit(boss, tmp_path, "of-lab", 64)
        with pytest.raises(AccessDenied, match="cancel of job of-lab: tenant lab is not this token's"):
            member.cancel("of-lab")
        boss.cancel("waits")  # of a tenant below it
        assert platform.wait("waits", 20.0).state == "cancelled"
        assert submit(boss, tmp_path, "huge", 65).state == "refused"
        before = platform.info()
        platform.set_policy("fifo")
        after = platform.info()
        assert (before.policy, after.policy, after.incarnation) == ("tide", "fifo", before.incarnation + 1)
        assert [job.job for job in after.jobs] == ["of-lab"]


def test_a_script_becomes_a_job_of_the_platform(cluster, tmp_path, monkeypatch):
    with running_platform(tmp_path) as platform:
        monkeypatch.setenv("RAYTIDE_TOKEN", platform._token)
        (tmp_path / "go").touch()
        config = {"folder": str(tmp_path), "epochs": 2}
        trainer = ElasticTrainer(
            loops.loop,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=(1, 2)),
            run_config=RunConfig(name="script", storage_path=str(tmp_path / "store"), progress=False),
        )
        result = trainer.fit()
        assert (result.status, result.metrics["epoch"]) == ("succeeded", 1)
        info = platform.wait("script", 20.0)
        assert (info.state, info.tenant) == ("succeeded", "admin")
        broken = ElasticTrainer(
            loops.loop,
            train_loop_config={**config, "fault": {"kind": "raise", "rank": 0, "step": 1}},
            run_config=RunConfig(name="broken", storage_path=str(tmp_path / "store"), progress=False),
        )
        with pytest.raises(JobFailed, match="a mistake of the user"):
            broken.fit()
        assert platform.wait("broken", 20.0).state == "failed"
