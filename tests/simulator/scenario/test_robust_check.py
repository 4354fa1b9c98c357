"""Robust rounds and devices that poison them in a scenario, and what does not go with them."""

from __future__ import annotations

import pytest

from fleetledger.methods.training.robust import Robust
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.rounds import round_rules
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.sections import PoisonSettings
from tests.simulator.scenario.test_asynchronous_check import ASYNCHRONOUS, parsed

ROBUST = '[rounds.robust]\nmean = "median"\n'
SHARES = "[devices.policy]\npublish_images = true\n"
NOISY = "[method.settings.privacy]\nclip = 1.0\nnoise = 0.5\n"
POISON = "[devices.poisoned]\nshare = 0.2\n"


def test_the_fleet_is_led_by_the_scenarios_rules() -> None:
    assert round_rules(parsed(ROBUST), 1).robust == Robust(mean="median")
    assert round_rules(parsed(""), 1).robust is None


def test_a_share_of_the_devices_poisons_spread_evenly() -> None:
    found = {share: PoisonSettings(share=share) for share in (0.2, 0.3, 1.0)}

    def numbers(share: float) -> list[int]:
        return [n for n in range(1, 11) if found[share].poisons(DeviceId(f"device-{n}"))]

    assert numbers(0.2) == [5, 10]
    assert numbers(0.3) == [4, 7, 10]
    assert numbers(1.0) == list(range(1, 11))


@pytest.mark.parametrize(
    ("text", "method", "why"),
    [
        (ROBUST + SHARES, "dcid", "rounds.robust: 'dcid' does more .*'fedhaf', 'lga', 'fbl'"),
        (ROBUST, "stsa", "rounds.robust: 'stsa' trains in no rounds of a fleet"),
        (ROBUST + ASYNCHRONOUS, "rounds", "robust.mean: 'median' needs all answers"),
        ("[rounds.robust]\ntrim = 0.5", "rounds", "rounds.robust.trim"),
        (ROBUST + NOISY, "rounds", "rounds.robust: .*noise of privacy hides .*'local'"),
        (POISON, "stsa", "devices.poisoned: 'stsa' trains in no rounds of a fleet"),
        (POISON + "[engine]\nkind='mqtt'", "rounds", "devices.poisoned beside engine.kind 'mqtt'"),
        (POISON + ASYNCHRONOUS, "rounds", "devices.poisoned beside rounds.asynchronous"),
    ],
)
def test_what_does_not_go_with_them_is_named(text: str, method: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        parsed(text, method)
