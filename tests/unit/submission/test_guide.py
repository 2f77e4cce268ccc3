"""What docs/job_files.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raytide.errors import ConfigError
from raytide.submission import ElasticJob, RigidJob, parse_job
from raytide.submission.tenantfile import parse_tenant_file

GUIDE = (Path(__file__).parents[3] / "docs/job_files.md").read_text()
JOB, TENANTS = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


def test_its_files_are_read():
    assert parse_job(JOB, "resnet.yaml").name == "resnet-7"
    assert [listed.admin for listed in parse_tenant_file(TENANTS, "tenants.yaml")] == [False, False, True]


def test_its_mistake_is_told_like_that():
    with pytest.raises(ConfigError) as error:
        parse_job(JOB.replace("workers:", "workes:"), "resnet.yaml")
    assert str(error.value)[:110] in GUIDE


@pytest.mark.parametrize("field", sorted({*ElasticJob.model_fields, *RigidJob.model_fields} - {"kind"}))
def test_it_names_every_field(field):
    assert re.search(rf"^\|.*`{field}`", GUIDE, re.MULTILINE)
