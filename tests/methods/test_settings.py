"""Presets fill in what nobody gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from fleetledger.methods.dcid import settings as dcid
from fleetledger.methods.fbl import settings as fbl
from fleetledger.methods.fedhaf import settings as fedhaf
from fleetledger.methods.lga import settings as lga
from fleetledger.methods.rounds import settings as rounds
from fleetledger.methods.settings import filled_in
from fleetledger.methods.stsa import settings as stsa

PRESETS = {"slow": {"rate": 1, "epochs": 9}, "fast": {"rate": 5}}


def test_what_is_given_wins_over_the_preset():
    given = {"preset": "slow", "rate": 3}
    assert filled_in(given, "preset", PRESETS, "fast") == {**given, "epochs": 9}


def test_the_default_preset_counts_where_none_is_given():
    assert filled_in({}, "preset", PRESETS, "fast") == {"rate": 5}


def test_an_unknown_preset_and_what_is_no_mapping_are_left_to_validation():
    assert filled_in({"preset": "none"}, "preset", PRESETS, "fast") == {"preset": "none"}
    assert filled_in([3], "preset", PRESETS, "fast") == [3]


FILLED: tuple[tuple[type[BaseModel], str, Mapping[str, Mapping[str, Any]]], ...] = (
    (dcid.DcidSettings, "preset", dcid.PRESETS),
    (fbl.FblSettings, "preset", fbl.PRESETS),
    (fbl.FblSettings, "mode", fbl.MODES),
    (fedhaf.FedHafSettings, "preset", fedhaf.PRESETS),
    (lga.LgaSettings, "preset", lga.PRESETS),
    (lga.LgaSettings, "mode", lga.MODES),
    (rounds.RoundsSettings, "preset", rounds.PRESETS),
    (stsa.StsaSettings, "preset", stsa.PRESETS),
)


def defaults_beside(
    kind: type[BaseModel], field: str, presets: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, BaseModel]]:
    """Yield settings whose preset sets something that is given as its default beside it."""
    for preset, filled in presets.items():
        for name in filled:
            default = kind.model_fields[name].get_default(call_default_factory=True)
            with suppress(ValidationError):  # some do not go without what the preset sets
                yield name, kind.model_validate({field: preset, name: default})


@pytest.mark.parametrize(("kind", "field", "presets"), FILLED)
def test_a_default_that_is_given_beside_a_preset_arrives_at_devices(
    kind: type[BaseModel], field: str, presets: Mapping[str, Mapping[str, Any]]
) -> None:
    tried = 0
    for name, settings in defaults_beside(kind, field, presets):
        arrived = kind.model_validate_json(settings.model_dump_json())
        assert arrived == settings, f"{name} of {settings}"
        tried += 1
    assert tried >= len(presets) / 2
