"""The presets of the released programs are what their scenarios have."""

import pytest

from fleetledger.methods.fbl.settings import FblSettings
from fleetledger.methods.lga.settings import LgaSettings
from fleetledger.simulator.scenario.loading import load_scenario


def without_preset(settings: LgaSettings | FblSettings) -> dict[str, object]:
    return settings.model_dump(exclude={"preset", "seed"})


@pytest.mark.parametrize("tasks", [5, 10, 20])
def test_the_scenarios_of_lga_are_the_released_program(tasks: int) -> None:
    scenario = load_scenario(f"cifar100-lga-{tasks}")
    told = LgaSettings.model_validate(scenario.method.settings)
    assert without_preset(told) == without_preset(LgaSettings(preset="released"))


@pytest.mark.parametrize("setting", ["15-1", "4-4", "8-2"])
def test_the_scenarios_of_fbl_on_voc_are_the_released_program(setting: str) -> None:
    scenario = load_scenario(f"voc-fbl-{setting}")
    told = FblSettings.model_validate(scenario.method.settings)
    assert without_preset(told) == without_preset(FblSettings(preset="released"))


def test_glfc_as_released_is_its_preset_in_the_mode_of_the_program() -> None:
    released = LgaSettings(preset="released-glfc")
    glfc = LgaSettings(preset="glfc", mode="code", pad=4, flip=True, brightness=63 / 255)
    assert without_preset(released) == without_preset(glfc)
    assert (released.bounds, released.groups, released.draws) == ((), "two", 0)
