from __future__ import annotations

import pytest

from raytide.errors import ConfigError
from raytide.yamlfile import parse_yaml
from raytide.yamlfile.document import MAX_CHARACTERS

BILLIONS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 8)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("1:8", "1:8"),
        ("1:30", "1:30"),
        ("1e-3", 0.001),
        ("1_000", 1000),
        ("007", "007"),
        ("0x10", 16),
        ("0o17", 15),
        ("-.5", -0.5),
        ("no", "no"),
        ("true", True),
        ("~", None),
        ("2026-01-01", "2026-01-01"),
        ("!!str 5", "5"),
        ("=", "="),
        ("a: {b: [1, x]}", {"a": {"b": [1, "x"]}}),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}),
    ],
)
def test_values_are_those_of_json(text, value):
    assert parse_yaml(text, "f.yaml").value == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [", "f.yaml, line 2: no YAML"),
        ("a: 1\nb: \x00", "f.yaml, line 2: no YAML"),
        ("a: 1\n---\nb: 1", "f.yaml, line 2: no YAML"),
        ('a: 1\nb: "\\UFFFFFFFF"', "f.yaml, line 2: no YAML"),
        (f"a: 1\nb: {'9' * 5000}\nc: 1", "f.yaml, line 3: no YAML"),
        ("a: 1\nb: <<", "f.yaml, line 2: no YAML"),
        ('a: 1\nb: "\\ud800"', "f.yaml, line 2: it has a character that no text has"),
        ("a: 1\n2: 1", "f.yaml, line 1: the key '2' is no text. Write it in quotes"),
        ("a: 1\n[1]: 1", "f.yaml, line 1: a key is no text"),
        ("a: 1\nb: {c: 1, c: 2}", "f.yaml, line 2: the field 'c' stands twice in it"),
        ("a: 1\nb: !!int x", "f.yaml, line 2: 'x' is no int. Leave the tag out"),
        ("a: 1\nb: !!python/object:os.system {}", "f.yaml, line 2: the tag tag:yaml.org,2002:python"),
        ("a: &a [*a]", "f.yaml, line 1: it is nested more than 40 deep"),
        ("&a {<<: *a}", "f.yaml, line 1: it is nested more than 40 deep"),
        ("[" * 60 + "]" * 60, "f.yaml, line 1: it is nested more than 40 deep"),
        ("[" * 5000, "f.yaml, line 1: no YAML: it is nested too deeply"),
        (BILLIONS, "f.yaml, line 6: it stands for more than 200,000 values"),
        ("x" * (MAX_CHARACTERS + 1), "f.yaml, line 1: it has 1,000,001 characters"),
    ],
)
def test_what_json_could_not_say_is_refused_with_its_line(text, said):
    with pytest.raises(ConfigError) as error:
        parse_yaml(text, "f.yaml")
    assert str(error.value).startswith(said)
