"""Fields and values under the names that they had before: read, refused twice, never written."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest
from pydantic import ValidationError

from schemas.former_names import Renamed


class Pot(Renamed):
    former_fields: ClassVar[dict[str, str]] = {"lid": "cover"}
    former_values: ClassVar[dict[str, dict[str, str]]] = {"size": {"wee": "small"}}
    cover: str = ""
    size: Literal["small", "large"] = "large"


@pytest.mark.parametrize("given", [{"lid": "glass"}, {"cover": "glass"}])
def test_a_field_is_read_by_both_names_and_written_by_the_present_one(given) -> None:
    assert Pot.model_validate(given).model_dump(exclude_defaults=True) == {"cover": "glass"}


@pytest.mark.parametrize("size", ["wee", "small"])
def test_a_value_is_read_by_both_names_and_written_by_the_present_one(size: str) -> None:
    read = Pot.model_validate_json(f'{{"size": "{size}"}}', strict=True)
    assert read.model_dump(exclude_defaults=True) == {"size": "small"}


def test_both_names_at_once_are_refused_with_the_one_to_keep() -> None:
    with pytest.raises(ValidationError, match="lid: is called 'cover' now, which is given too"):
        Pot.model_validate({"lid": "glass", "cover": "tin"})


@pytest.mark.parametrize("given", [{"lids": 1}, {"size": "tiny"}, {"size": 3}])
def test_what_never_was_a_name_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Pot.model_validate(given)
