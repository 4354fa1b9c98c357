"""What a scenario says of training reaches torch."""

from __future__ import annotations

import pytest

from fleetledger.simulator.scenario.sections import EngineSettings
from fleetledger.simulator.virtual.training import TrainerPoolSettings

pytestmark = pytest.mark.torch


def test_all_that_the_engine_section_says_of_a_step_is_told() -> None:
    section = EngineSettings(
        training="stack",
        device="cpu",
        bfloat16=True,
        channels_last=True,
        tf32=False,
        steps="compiled",
        training_seconds=7.0,
    )
    pool = TrainerPoolSettings.of(section)
    told = pool.for_torch()
    assert (told.engine, told.device, told.autocast) == ("stack", "cpu", True)
    assert (told.channels_last, told.tf32, told.steps) == (True, False, "compiled")
    assert pool.seconds == 7.0
