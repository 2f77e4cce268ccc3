"""What a tenant hands in, and who may: job files, tenant files, tokens."""

from raytide.submission.jobfile import ElasticJob, JobFile, RigidJob, parse_job

__all__ = ["ElasticJob", "JobFile", "RigidJob", "parse_job"]
