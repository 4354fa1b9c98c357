"""Settings: what the paper and the released program differ in, presets, what does not fit."""

from __future__ import annotations

import subprocess
import sys
from math import prod

import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.fbl import DESCRIPTOR
from fleetledger.methods.fbl.coordinator import COORDINATOR
from fleetledger.methods.fbl.settings import MODES, PRESETS, FblSettings
from tests.methods.fbl.making import assignment

LITERAL = {"pod": 0.0005, "pod_maps": 1.0, "pod_logits": 1.0}


def test_the_card_says_that_everybody_looks_and_that_pictures_have_masks():
    assert DESCRIPTOR.trains
    assert DESCRIPTOR.observes
    assert DESCRIPTOR.segments
    assert not DESCRIPTOR.proxy
    assert DESCRIPTOR.can_run("learn", frozenset({"numpy", "onnxruntime", "torch"}))
    assert not DESCRIPTOR.can_run("learn", frozenset({"numpy", "onnxruntime"}))


def test_defaults_are_the_papers():
    settings = FblSettings()
    assert (settings.loss, settings.labels, settings.balanced) == ("fbl", "adaptive", True)
    assert (settings.unsure, settings.relations, settings.pod) == ("background", 0.5, 1.0)
    assert (settings.pod_maps, settings.pod_logits) == (0.01, 0.0005)
    assert (settings.share_start, settings.share_step, settings.share_most) == (0.2, 0.1, 0.8)
    assert (settings.share_since, settings.detection) == ("transition", "history")
    assert (settings.entropy_rise, settings.released_monitor) == (0.6, False)
    assert (settings.first_rate, settings.rate, settings.power) == (0.01, 0.001, 0.9)
    assert (settings.momentum, settings.nesterov, settings.weight_decay) == (0.9, True, 1e-4)
    assert (settings.epochs, settings.batch, settings.batch_parts) == (6, 24, 1)
    assert (settings.growth, settings.averaging) == ("background", "plain")


def test_code_mode_is_the_released_program():
    settings = FblSettings(mode="code")
    assert (settings.loss, settings.share_since) == ("released", "transition")
    assert (settings.detection, settings.released_monitor) == ("rise", True)
    assert settings.entropy_rise == 0.6


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_mode_and_a_preset_change_what_they_say_and_nothing_else(mode, preset):
    plain = FblSettings().model_dump()
    made = FblSettings(mode=mode, preset=preset).model_dump()
    expected = {**plain, **MODES[mode], **PRESETS[preset], "mode": mode, "preset": preset}
    assert made == expected


def test_the_printed_factors_of_pod_are_one_switch():
    plain = FblSettings().model_dump()
    made = FblSettings(pod_literal=True).model_dump()
    assert made == {**plain, **LITERAL, "pod_literal": True}
    assert FblSettings(pod_literal=True, pod=0.1).pod == 0.1


def test_what_is_given_wins_and_a_dumped_assignment_is_the_same_again():
    assert FblSettings(mode="code", loss="fbl").loss == "fbl"
    assert FblSettings(preset="lwf", distillation=3.0).distillation == 3
    assert FblSettings(preset="mib", growth="seeded").growth == "seeded"
    for values in (
        {"mode": "code", "detection": "rise"},
        {"preset": "ilt"},
        {"pod_literal": True, "crop": 16},
        {"weight_bounds": [0.5, 5]},
    ):
        of = assignment(**values)
        assert COORDINATOR.read_assignment(of.model_dump(mode="json")) == of


def test_who_needs_an_old_model_and_who_looks():
    for preset in PRESETS:
        assert FblSettings(preset=preset).needs_old_model == (preset != "finetuning")
    assert assignment().everybody_observes
    assert not assignment(observers="cohort").everybody_observes


@pytest.mark.parametrize("preset", ["finetuning", "lwf", "ilt"])
def test_rivals_without_unbiased_losses_draw_new_rows(preset):
    assert FblSettings(preset=preset).growth == "seeded"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"preset": "fbi"}, "preset"),
        ({"mode": "papers"}, "mode"),
        ({"loss": "fbi"}, "loss"),
        ({"labels": "median"}, "labels"),
        ({"unsure": "old"}, "unsure"),
        ({"detection": "relative"}, "detection"),
        ({"growth": "none"}, "growth"),
        ({"frozen_norm": "decoder"}, "frozen_norm"),
        ({"probability": 0.0}, "probability"),
        ({"relations": -0.1}, "relations"),
        ({"entropy_rise": 0.0}, "entropy_rise"),
        ({"batch_parts": 0}, "batch_parts"),
        ({"first_rate": 0.0}, "first_rate"),
        ({"rate": 0.0}, "rate"),
        ({"crop": 4}, "crop"),
        ({"lambda1": 0.5}, "lambda1"),
        ({"least_scale": 2.0}, "least_scale"),
        ({"share_start": 0.9}, "share_start"),
        ({"momentum": 0.0}, "nesterov"),
        ({"released_monitor": True}, "released_monitor"),
        ({"loss": "plop", "relations": 0.1}, "relations"),
        ({"mode": "code", "relations": 0.1}, "relations"),
        ({"mode": "code", "unsure": "ignore"}, "unsure"),
        ({"preset": "finetuning", "pod_literal": True}, "pod"),
        ({"preset": "lwf", "unsure": "ignore"}, "unsure"),
        ({"weight_bounds": (2.0, 1.0)}, "weight_bounds"),
        ({"weight_bounds": (0.5, 5.0), "balanced": False}, "weight_bounds"),
        ({"preset": "mib", "weight_bounds": (0.5, 5.0)}, "weight_bounds"),
        ({"distillation": 5.0}, "distillation"),
        ({"network": "small_dens"}, "network"),
        ({"network": "resnet18"}, "gives pixels no class"),
    ],
)
def test_wrong_settings_are_told_by_field(settings, why):
    with pytest.raises(MethodError, match=why):
        COORDINATOR.assign(settings, (3, 32, 32))


def test_inputs_that_are_no_pictures_for_it_are_refused():
    with pytest.raises(MethodError, match="import the network without one"):
        COORDINATOR.assign({"network": "small_dense"}, (64,))
    with pytest.raises(MethodError, match="input_shape"):
        COORDINATOR.read_assignment({"settings": {}, "input_shape": []})
    with pytest.raises(MethodError, match="sides of 8"):
        COORDINATOR.assign({"network": "small_dense"}, (3, 4, 4))


def test_the_paper_trains_deeplab_with_resnet_101():
    of = COORDINATOR.assign({}, (3, 512, 512))
    numbers = sum(prod(shape) for shape in of.network.shapes(20).values())
    assert 58e6 < numbers < 61e6


def test_neither_settings_nor_the_coordinator_import_torch():
    code = "from fleetledger.methods.fbl import coordinator, memory; import sys;"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
