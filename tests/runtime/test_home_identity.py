"""A home remembers who lives in it, and says so when its settings say otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.runtime.home_identity import FILE_NAME, remember
from fleetledger.runtime.settings_file import SettingsError

SETTINGS = Path("agent.toml")
NAMES = {"device": "camera-1", "fleet": "orchard"}


@pytest.mark.parametrize("name", ["device", "fleet"])
def test_another_name_is_refused_with_both_and_the_way_out(tmp_path: Path, name: str) -> None:
    state = tmp_path / "state"
    remember(state, SETTINGS, NAMES)
    remember(state, SETTINGS, NAMES)
    with pytest.raises(SettingsError) as caught:
        remember(state, SETTINGS, {**NAMES, name: "other"})
    assert f"agent.toml: {name}: 'other', and this home is that of '{NAMES[name]}'" in str(
        caught.value
    )
    assert f"delete {state / FILE_NAME}" in str(caught.value)
    remember(state, SETTINGS, NAMES)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(SettingsError, match="cannot be read"):
        remember(tmp_path, SETTINGS, NAMES)


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    remember(tmp_path, SETTINGS, NAMES)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
