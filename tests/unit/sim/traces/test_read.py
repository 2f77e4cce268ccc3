"""The format is recognised, and what is unknown is told apart from what is malformed."""

from __future__ import annotations

import pytest

from raytide.sim.traces import TraceError, read_trace

ROWS = {
    "default": ("job_id,tenant,submit_time,num_gpus,duration", "a,t,5,2,60"),
    "philly": ("timestamp,duration,num_gpus,gpu_time,cluster", "2017-10-09 07:01:55,60,2,120,t"),
    "pollux": ("name,time,application,num_replicas,batch_size", "a,5,bert,2,8"),
    "elasticflow": ("job_id,submit_time,model_name,ddl,batch_size,num_gpu,duration,iteration", "a,5,bert,65,8,2,60,9"),
    "microsoft_deadlines": (
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration",
        "a,5,9,bert,65,8,2,60",
    ),
    "microsoft": ("job_id,submission_time,duration,num_gpu", "a,5,60,2"),
    "tiresias": ("job_id,num_gpu,submit_time,iterations,model_name,duration,interval", "a,2,5,9,bert,60,0"),
}
KNOWS = {
    "default": "tenant duration",
    "philly": "tenant duration",
    "pollux": "model batch",
    "elasticflow": "duration model batch iterations deadline",
    "microsoft_deadlines": "duration model batch iterations deadline",
    "microsoft": "duration",
    "tiresias": "duration model iterations",
}


@pytest.mark.parametrize("family", ROWS)
def test_headers_are_recognised(write, family):
    (job,) = read_trace(write(*ROWS[family]))
    told = {
        "tenant": job.tenant == "t",
        "duration": job.duration_s == 60,
        "model": job.model == "bert",
        "batch": job.batch_size == 8,
        "iterations": job.iterations == 9,
        "deadline": job.deadline_s == 65,
    }
    assert job.gpus == 2
    assert {name for name, is_told in told.items() if is_told} == set(KNOWS[family].split())


def test_a_suffix_is_recognised(write):
    (job,) = read_trace(write("A3C\tcd x\t--steps\t1\t9\t5\t2", name="msr.trace"))
    assert (job.model, job.iterations, job.submit_s, job.gpus) == ("A3C", 9, 5, 2)
    with pytest.raises(TraceError, match="it is no archive"):
        read_trace(write("A3C\tcd x\t--steps\t1\t9\t5\t2", name="msr.trace"), "member")


def test_an_unknown_format_lists_the_known_ones(write):
    with pytest.raises(TraceError) as caught:
        read_trace(write("job_id,user,submit_time,num_gpus,duration", "a,t,0,1,1"))
    text = str(caught.value)
    assert "the nearest, default, has tenant too" in text
    for line in (
        "default: job_id, tenant, submit_time, num_gpus, duration, [model]",
        "Philly: timestamp, duration, num_gpus, cluster",
        "Pollux workload: name, time, application, num_replicas, batch_size",
        "ElasticFlow: job_id, submit_time, iteration, model_name, ddl",
        "Microsoft cluster: job_id, submission_time, duration, num_gpu",
        "Tiresias: job_id, num_gpu, submit_time, iterations, model_name, duration",
        "Gavel (*.trace, tab-separated, no header): job_type, total_steps, scale_factor, arrival_time",
    ):
        assert f"\n  {line}" in text


def test_a_malformed_row_is_no_unknown_format(write):
    with pytest.raises(TraceError, match="line 2, column 'num_gpu': 0 is not"):
        read_trace(write("job_id,submission_time,duration,num_gpu", "a,5,60,0"))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("philly-slices/philly_480.csv", 480),
        ("pollux/philly.csv", 82_247),
        ("pollux/workloads/workload-6.csv", 160),
        ("elasticflow/traces/philly_103959.csv", 876),
        ("elasticflow-microsoft/195job.csv", 195),
        ("gavel/max_min_fairness.trace", 96),
        ("tiresias/60_job.csv", 60),
    ],
)
def test_public_traces_are_recognised(public, name, count):
    assert len(read_trace(public(name))) == count


def test_what_is_no_trace_is_refused(public):
    with pytest.raises(TraceError, match="no known format has the columns"):
        read_trace(public("scaling_summary.csv"))
