"""Parts with noise are integers: models are made again, and devices leave to the last bit."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.core.rules import NoiseRules, PrivacyRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.program import home_verification
from fleetledger.coordinator.program.home_verification import VerifiedHome, verify_home
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.schemas.receipts import Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.replay.stories import Story, replay

pytestmark = pytest.mark.skipif(
    find_spec("opendp") is None, reason="pip install 'fleetledger[privacy]'"
)
METHODS = {
    "stsa": {"map_width": 40, "form": "exact"},
    "fed3r": {"method": "fed3r"},
}


def story_of(home: Path, method: str, protects: str = "image") -> Story:
    noise = NoiseRules(protects=protects, epsilon=8.0)
    return Story(home, "dev-1", "dev-2", privacy=PrivacyRules(noise=noise), **METHODS[method])


@pytest.mark.parametrize("method", METHODS)
def test_models_of_noisy_parts_are_made_again_and_their_ledger_fits(
    tmp_path: Path, method: str
) -> None:
    story = story_of(tmp_path, method)
    story.give("dev-2", 2)
    alone = story.model()
    story.give("dev-1", 1)
    both = story.model()
    story.coordinator.command(RetractContributions(device=DeviceId("dev-1"), reason="its owner"))
    again = story.model()
    assert both.aggregate != alone.aggregate
    assert (again.aggregate, again.head) == (alone.aggregate, alone.head)
    refused = story.give("dev-1", 1, part=1).answer
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("privacy: "), "what was retracted stays spent"
    story.close()
    code, text = replay(tmp_path, "--all")
    assert code == 0, text
    report = verify_home(VerifiedHome(tmp_path, blob_folder(tmp_path), None))
    assert report.ok, str(report)


def test_verification_names_a_device_that_has_spent_more(tmp_path: Path, monkeypatch) -> None:
    story = story_of(tmp_path, "fed3r", "device")
    story.give("dev-1", 1)
    assert isinstance(story.give("dev-1", 3, part=1).answer, Refused)
    state = story.coordinator.engine.core.state
    (device,) = state.contributions.noisy
    assert device == "dev-1"
    story.close()
    with ledger_of(tmp_path) as ledger:
        (entry,) = ledger.find(ContributionAccepted)
    real = home_verification.fold

    def twice(state: State, entries) -> None:
        """Fold entries as if the part had been taken under a second number, too."""
        real(state, entries)
        for spent in state.contributions.noisy.get(DeviceId("dev-1"), {}).values():
            spent.give(entry.index + 1000, spent.device)

    monkeypatch.setattr(home_verification, "fold", twice)
    report = verify_home(VerifiedHome(tmp_path, blob_folder(tmp_path), None))
    assert "privacy of device dev-1: epsilon at delta 1e-05 should be at most 8" in str(report)


def test_status_says_what_each_device_has_spent(tmp_path: Path) -> None:
    story = story_of(tmp_path, "fed3r")
    story.give("dev-1", 1)
    story.close()
    shown = CliRunner().invoke(cli.app, ["verify", "--home", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    with ledger_of(tmp_path) as ledger:
        devices = fleet_now(ledger, None, 10**18).devices
    spent = {device.name: device.epsilon for device in devices}
    assert spent["dev-1"] == pytest.approx(8.0, rel=1e-4)
    assert spent["dev-2"] == 0
