"""Settings: what the paper and the released program differ in, the ablations, what does not fit."""

from __future__ import annotations

import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga import DESCRIPTOR
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.settings import MODES, PRESETS, LgaSettings
from tests.methods.lga.making import SHAPE, assignment


def test_the_card_says_that_everybody_looks_and_that_there_is_a_proxy():
    assert DESCRIPTOR.trains
    assert DESCRIPTOR.observes
    assert DESCRIPTOR.proxy
    assert DESCRIPTOR.can_run("learn", frozenset({"numpy", "onnxruntime", "torch"}))
    assert not DESCRIPTOR.can_run("learn", frozenset({"numpy", "onnxruntime"}))


def test_defaults_are_the_papers():
    settings = LgaSettings()
    assert (settings.loss, settings.groups, settings.exponent) == ("softmax", "disjoint", "local")
    assert (settings.bounds, settings.slices) == ((), "raw")
    assert (settings.cross_entropy, settings.distillation) == (1, 1)
    assert (settings.rate, settings.schedule, settings.momentum) == (0.1, "constant", 0)
    assert (settings.epochs, settings.memory, settings.herding) == (20, 2000, "distinct")
    assert (settings.detection, settings.entropy_rise) == ("rise", 1.2)
    assert (settings.looks, settings.looks_at) == (1, "all")
    assert (settings.perturbation_rate, settings.perturbation_noise) == (1.0, 0.1)
    assert (settings.draws, settings.xi) == (5, 0.1)
    assert (settings.inversion_rate, settings.averaging) == (1.0, "plain")


def test_code_mode_is_the_released_program():
    settings = LgaSettings(mode="code")
    assert (settings.loss, settings.groups) == ("sigmoid", "cumulative")
    assert (settings.exponent, settings.bounds) == ("tasks", (0.5, 5.0))
    assert (settings.rate, settings.schedule) == (2.0, "released")
    assert settings.herding == "repeating"
    assert (settings.perturbation_rate, settings.perturbation_noise) == (0.2, 0)
    assert (settings.perturbation_decay, settings.perturbation_inputs) == (1e-5, "plain")
    assert (settings.inversion_rate, settings.inversion_steps) == (0.1, 250)
    assert (settings.slots_shift, settings.slots_reset) == ("always", False)
    assert settings.ignored_rounds == 6
    assert (settings.detection, settings.entropy_rise) == ("rise", 1.2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_mode_and_a_preset_change_what_they_say_and_nothing_else(mode, preset):
    plain = LgaSettings().model_dump()
    made = LgaSettings(mode=mode, preset=preset).model_dump()
    expected = {**plain, **MODES[mode], **PRESETS[preset], "mode": mode, "preset": preset}
    assert made == expected


@pytest.mark.parametrize("name", MODES["code"])
def test_each_setting_of_a_mode_can_be_set_apart(name):
    paper = getattr(LgaSettings(), name)
    assert MODES["code"][name] != paper
    mixed = LgaSettings(mode="code", **{name: paper}).model_dump()
    assert mixed == {**LgaSettings(mode="code").model_dump(), name: paper}


def test_what_is_given_wins_and_a_dumped_assignment_is_the_same_again():
    assert LgaSettings(mode="code", preset="glfc").bounds == ()
    assert LgaSettings(mode="code", preset="glfc", bounds=[1, 2]).bounds == (1, 2)
    for values in ({"mode": "code"}, {"preset": "glfc", "rate": 0.3}, {"mode": "code", "rate": 1}):
        of = assignment(**values)
        assert COORDINATOR.read_assignment(of.model_dump(mode="json")) == of


def test_who_needs_a_proxy():
    assert assignment().has_proxy
    assert assignment(preset="without-sbm").has_proxy
    assert not assignment(preset="without-psr").has_proxy
    assert assignment(preset="without-psr").settings.needs_old_model
    for preset in ("fedavg", "fedavg-exemplars"):
        assert not assignment(preset=preset).has_proxy
        assert not assignment(preset=preset).settings.needs_old_model
    assert assignment().everybody_observes
    assert not assignment(observers="cohort").everybody_observes


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"preset": "lgs"}, "preset"),
        ({"mode": "papers"}, "mode"),
        ({"bounds": [0.5]}, "least and the largest"),
        ({"bounds": [2.0, 1.0]}, "least and the largest"),
        ({"batch": 1}, "batch"),
        ({"rate": 0.0}, "rate"),
        ({"reserved": 1}, "reserved"),
        ({"entropy_rise": 0.0}, "entropy_rise"),
        ({"gamma1": 2.0}, "gamma1"),
        ({"network": "resnet1"}, "network"),
        ({"network": "identity"}, "network"),
    ],
)
def test_wrong_settings_are_told_by_field(settings, why):
    with pytest.raises(MethodError, match=why):
        COORDINATOR.assign(settings, (3, 32, 32))


def test_inputs_that_are_no_pictures_for_it_are_refused():
    with pytest.raises(MethodError, match="import the network without one"):
        COORDINATOR.assign({"network": "mlp"}, (64,))
    with pytest.raises(MethodError, match="input_shape"):
        COORDINATOR.read_assignment({"settings": {}, "input_shape": []})
    with pytest.raises(MethodError, match="only a part is trained"):
        COORDINATOR.assign({"network": "vit_b_16"}, (3, 224, 224))


def test_pictures_that_are_not_square_need_settings_without_a_proxy():
    with pytest.raises(MethodError, match="square pictures"):
        COORDINATOR.assign({"network": "mlp"}, (1, 8, 6))
    assert COORDINATOR.assign({"network": "mlp", "preset": "without-psr"}, (1, 8, 6))


@pytest.mark.torch
def test_the_proxys_rules_come_from_the_settings():
    from fleetledger.methods.lga.encoding import Encoding
    from fleetledger.methods.lga.inversion import RELEASED as RELEASED_SEARCH
    from fleetledger.methods.lga.proxy import ProxyRules
    from fleetledger.methods.lga.slots import RELEASED, SlotRules

    of = COORDINATOR.assign({"network": "mlp"}, SHAPE)
    assert of.proxy_rules == ProxyRules(Encoding(1, 8, 200, of.settings.seed))
    code = COORDINATOR.assign({"network": "mlp", "mode": "code"}, SHAPE).proxy_rules
    assert code.slots == RELEASED
    assert (code.inversion.search, code.inversion.start) == (RELEASED_SEARCH, "noise")
    assert assignment(preset="without-sbm").proxy_rules.slots == SlotRules(best=False)
    assert assignment(preset="without-ssa").proxy_rules.augmentation.draws == 0
    other = assignment(
        seed=9, reserved=30, inversion_kept=3, inversion_inner=7, xi=0.3, square_root=False
    ).proxy_rules
    assert other.encoding == Encoding(1, 8, 30, 9)
    assert (other.inversion.kept, other.inversion.search.inner) == (3, 7)
    assert (other.augmentation.xi, other.augmentation.square_root) == (0.3, False)
    assert assignment(worst_distance=2.0).proxy_rules.worst_distance == 2
