from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from raytide.errors import ConfigError
from raytide.yamlfile import parse_yaml


class Wheel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    inches: float = Field(default=28.0, gt=0)
    brand: str = ""


class Bike(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    kind: Literal["road", "city"] = "city"
    gears: int = Field(default=1, ge=1, le=30)
    electric: bool = False
    wheels: list[Wheel] = Field(default_factory=list, max_length=2)
    spare: Wheel | None = None

    @model_validator(mode="after")
    def _check(self) -> Bike:
        if self.kind == "road" and self.electric:
            raise ConfigError("electric", "no road bike is", "Leave it out")
        return self


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: needs a mapping, and there is nothing. Known: name, kind, gears, electric, wheels, spare"),
        ("[1]", "line 1: needs a mapping, and there is a list. Known: name"),
        ("gears: 3", "line 1, field 'name': is missing. Known: name, kind"),
        ("gears: 3\nnam: x", "line 2, field 'nam': there is no such field. Did you mean name? Known: name, kind"),
        ("name: x\n\nwheels:\n- inch: 2", "line 4, field 'inch': there is no such field. Did you mean inches?"),
        ("name: x\nspare: {colour: 2}", "line 2, field 'colour': there is no such field. Known: inches, brand"),
        ("name: x\nspare: 7", "line 2, field 'spare': needs a mapping, and 7 is a number. Known: inches, brand"),
        ("name: 7", "line 1, field 'name': needs text, and 7 is a number. Write it in quotes"),
        ("name: [7]", "line 1, field 'name': needs text, and there is a list. Write text"),
        ("name: x\ngears: 2.5", "line 2, field 'gears': needs a whole number, and 2.5 is a number"),
        ("name: x\ngears: true", "line 2, field 'gears': needs a whole number, and True is true or false"),
        ("name: x\ngears: 0", "line 2, field 'gears': 0 is below 1. Give at least 1"),
        ("name: x\ngears: 31", "line 2, field 'gears': 31 is above 30. Give at most 30"),
        ("name: x\nelectric: 1", "line 2, field 'electric': needs true or false, and 1 is a number"),
        ("name: x\nkind: mtb", "line 2, field 'kind': 'mtb' is not known. Write road or city"),
        ("name: x\nkind: road\nelectric: true", "line 3, field 'electric': no road bike is. Leave it out"),
        ("name: x\nspare:\n  inches: .nan", "line 3, field 'inches': nan is no finite number"),
        ("name: x\nspare:\n  inches: 0", "line 3, field 'inches': 0 is not above 0. Give more than 0"),
        ("name: x\nwheels: [{}, {}, {}]", "line 2, field 'wheels': [{}, {}, {}] does not fit: list should have"),
        ("base: &b {inches: x}", "line 1, field 'base': there is no such field"),
        ("name: x\nwheels:\n- &b {inches: 5}\n- <<: *b\n  inches: x", "line 5, field 'inches': needs a number"),
    ],
)
def test_a_mistake_is_told_with_line_field_and_remedy(text, said):
    with pytest.raises(ConfigError) as error:
        parse_yaml(text, "f.yaml").read(Bike)
    assert str(error.value).startswith(f"f.yaml, {said}")


def test_what_fits_is_read():
    text = "name: x\nwheels: [{inches: 26}]\nspare: {brand: y}"
    bike = parse_yaml(text, "f.yaml").read(Bike)
    assert bike == Bike(name="x", wheels=[Wheel(inches=26.0)], spare=Wheel(brand="y"))
