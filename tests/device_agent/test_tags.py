"""What an owner says of a device in `agent.toml` is said at its birth."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.core.presence import make_birth
from fleetledger.device_agent.core.state import AgentRules, AgentState, DeviceIdentity
from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from tests.device_agent import making


def home(folder: Path, lines: str) -> AgentHome:
    path = write_home(folder / "home", NewHome(DeviceId("bench-3"), FleetId("workshop")))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('# site = "orchard-1"', lines), encoding="utf-8")
    return AgentHome.open(path.parent)


def birth(settings: AgentHome) -> Message:
    runs = BootId("a" * 16), BootId("b" * 16)
    identity = DeviceIdentity(*runs, making.CAPABILITIES, tags=settings.settings.tags)
    return make_birth(AgentState(AgentRules(), identity))


def test_the_birth_says_the_tags_of_the_settings(tmp_path: Path) -> None:
    said = birth(home(tmp_path, 'site = "north"\ngpu = "orin"')).model_dump(mode="json")
    assert said["tags"] == {"site": "north", "gpu": "orin"}
    assert Birth.read(said).tags == {"site": "north", "gpu": "orin"}


def test_a_birth_without_tags_can_be_read_by_a_coordinator_of_before(tmp_path: Path) -> None:
    assert "tags" not in birth(home(tmp_path, "")).model_dump(mode="json")


@pytest.mark.parametrize(
    "lines",
    [
        'Site = "north"',
        'site = "two words"',
        "site = 3",
        'site = ""',
        "\n".join(f't{number} = "1"' for number in range(33)),
    ],
)
def test_a_tag_that_cannot_be_one_is_told_with_its_file(lines: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"agent\.toml: .*tags"):
        home(tmp_path, lines)
