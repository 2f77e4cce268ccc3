from __future__ import annotations

import pytest

from raytide.sim.traces import TraceError, TraceJob, read_pollux

HEADER = "name,time,application,num_replicas,batch_size"


def test_a_workload(write):
    path = write(HEADER, "cifar10-0,107,cifar10,6,2048")
    assert read_pollux(path) == [TraceJob("cifar10-0", "default", 107.0, 6, None, "cifar10", 2048)]


def test_errors_use_the_files_words(write):
    with pytest.raises(TraceError, match="line 2, column 'num_replicas': 0 is not"):
        read_pollux(write(HEADER, "cifar10-0,107,cifar10,0,2048"))


@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("folder", ["workloads", "workloads-realistic"])
def test_public_workloads(public, folder, number):
    jobs = read_pollux(public(f"pollux/{folder}/workload-{number}.csv"))
    assert len(jobs) == 160
    assert {job.model for job in jobs} <= {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}
    assert 0 <= jobs[0].submit_s <= jobs[-1].submit_s < 8 * 3600
    assert all(job.duration_s is None and job.batch_size > 0 for job in jobs)
