from __future__ import annotations

import pytest

from raytide.sim.traces import TraceError, TraceJob, read_elasticflow

OWN = "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration"
MICROSOFT = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"


def test_both_column_sets(write):
    expected = [TraceJob("x", "default", 100.0, 4, 60.0, "vgg16", 256, 1000.0, 150.0)]
    assert read_elasticflow(write(OWN, "x,100,1,vgg16,150,256,4,1,60,1000")) == expected
    assert read_elasticflow(write(MICROSOFT, "x,100,1000,vgg16,150,256,4,60")) == expected


def test_a_relative_deadline_is_noticed(write):
    with pytest.raises(TraceError, match="line 2, column 'deadline': 90 is before the submission at 100"):
        read_elasticflow(write(MICROSOFT, "x,100,1000,vgg16,90,256,4,60"))


@pytest.mark.parametrize(
    ("name", "count", "late"),
    [("elasticflow/traces/philly_103959.csv", 876, 466), ("elasticflow-microsoft/195job.csv", 195, 92)],
)
def test_public_deadlines_are_absolute(public, name, count, late):
    jobs = read_elasticflow(public(name))
    assert len(jobs) == count
    slack = [(job.deadline_s - job.submit_s) / job.duration_s for job in jobs]
    assert 0.5 <= min(slack) < 0.51
    assert 1.49 < max(slack) < 1.5
    assert sum(share < 1 for share in slack) == late
    assert jobs == sorted(jobs, key=lambda job: job.submit_s)
