from __future__ import annotations

import pytest

from raytide.errors import ConfigError
from raytide.submission.access import make_token
from raytide.submission.local_token import local_token, save_token, token_path


def test_there_may_be_none(tmp_path):
    assert local_token({}, tmp_path) == ""


def test_a_saved_token_is_found_again_and_private(tmp_path):
    token = make_token()
    path = save_token(token, tmp_path)
    assert local_token({}, tmp_path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_it_can_be_replaced_and_leaves_nothing_behind(tmp_path):
    save_token(make_token(), tmp_path)
    newer = make_token()
    path = save_token(newer, tmp_path)
    assert local_token({}, tmp_path) == newer
    assert list(path.parent.iterdir()) == [path]


def test_the_environment_comes_first(tmp_path):
    save_token(make_token(), tmp_path)
    assert local_token({"RAYTIDE_TOKEN": " rt_x\n"}, tmp_path) == "rt_x"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_can_reach_is_refused(tmp_path, mode):
    path = save_token(make_token(), tmp_path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode is {mode:o}.*chmod 600 {path}"):
        local_token({}, tmp_path)


@pytest.mark.parametrize("text", [b"secret", b"rt_a b", b"rt_\xff", b"rt_a\nrt_b"])
def test_what_is_no_token_is_refused_and_not_shown(tmp_path, text):
    path = save_token("", tmp_path)
    path.write_bytes(text)
    with pytest.raises(ConfigError, match="holds no token") as error:
        local_token({}, tmp_path)
    assert "secret" not in str(error.value)


def test_an_unreadable_or_unwritable_place_is_told(tmp_path):
    token_path(tmp_path).mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read"):
        local_token({}, tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        save_token("rt_x", tmp_path)
