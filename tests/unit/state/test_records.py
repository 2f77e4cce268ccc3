"""What a client may hand in."""

from __future__ import annotations

import pytest

from raytide.errors import ConfigError
from raytide.state import NewJob, Work
from support.scheduling import job


@pytest.mark.parametrize("text", ["zero\0byte", "half \udcff"])
def test_text_that_no_database_takes_is_refused_before_a_round_is_written_with_it(text):
    for new in (
        lambda: NewJob(job(text), Work("rigid"), "key"),
        lambda: NewJob(job("j", tenant=text), Work("rigid"), "key"),
        lambda: NewJob(job("j"), Work("rigid"), text),
        lambda: NewJob(job("j"), Work("rigid", text), "key"),
        lambda: NewJob(job("j"), Work("rigid", blobs={text: b""}), "key"),
    ):
        with pytest.raises(ConfigError, match="plain text"):
            new()


def test_any_other_text_is_fine():
    assert NewJob(job("Jöb 1/2 🚀"), Work("rigid"), "key").spec.job == "Jöb 1/2 🚀"
