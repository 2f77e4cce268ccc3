from __future__ import annotations

from raytide.sim.traces import TraceJob, read_tiresias


def test_the_simulators_columns(write):
    path = write("job_id,num_gpu,submit_time,iterations,model_name,duration,interval", "1,8,30,133,vgg11,147,23")
    assert read_tiresias(path) == [TraceJob("1", "default", 30.0, 8, 147.0, "vgg11", iterations=133.0)]


def test_the_public_example(public):
    jobs = read_tiresias(public("tiresias/60_job.csv"))
    assert len(jobs) == 60
    assert jobs[-1] == TraceJob("59", "default", 1779.0, 1, 122.0, "inception3", iterations=525.0)
