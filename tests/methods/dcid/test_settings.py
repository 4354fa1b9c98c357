"""Presets, what settings have to do with each other, and the phases that follow from them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fleetledger.methods.dcid import DESCRIPTOR
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.settings import PRESETS, DcidSettings
from fleetledger.methods.descriptor import Descriptor
from fleetledger.methods.errors import MethodError
from tests.methods.dcid.making import SHAPE, assignment

LEARNERS = ("icarl", "lucir", "erdil", "tpcil")
ALONE = {"dcd": False, "dad": False}
LUCIR_PHASES = (("share", "imprint"), ("train", "distil"), ())


def test_every_preset_is_a_learner_with_dcid_or_in_the_basic_framework():
    assert len(PRESETS) == 16
    for name in PRESETS:
        settings = DcidSettings(preset=name)
        assert settings.learner in name
        assert settings.dcd == settings.dad == name.startswith("dcid")
        assert (settings.fedmax > 0) == name.endswith("fedmax")
        assert (settings.proximal > 0) == name.endswith("fedprox")


def test_defaults_are_the_papers_on_cifar_100():
    settings = DcidSettings()
    assert (settings.epochs, settings.rate, settings.batch) == (10, 0.01, 128)
    assert (settings.distil_rate, settings.distil_epochs, settings.tau1) == (1e-4, 5, 5.0)
    assert (settings.anchors_per_class, settings.shared_per_class) == (20, 20)
    strengths = [DcidSettings(learner=name).anchor_strength for name in LEARNERS]
    assert strengths == [5.0, 5.0, 100.0, 15.0]
    heads = [DcidSettings(learner=name).head_kind for name in LEARNERS]
    assert heads == ["linear", "cosine", "linear", "cosine"]


def test_whatever_is_given_beside_a_preset_wins():
    assert DcidSettings(preset="dcil-lucir-fedmax", fedmax=3.0, dad=True).fedmax == 3.0
    assert DcidSettings(strength=0.0).anchor_strength == 0.0
    assert DcidSettings(learner="erdil", head="cosine").head_kind == "cosine"


def test_icarl_answers_by_its_exemplars_and_lucir_begins_equally_everywhere():
    for kind in ("dcid-{}", "dcil-{}-fedavg"):
        assert DcidSettings(preset=kind.format("icarl")).evaluation == "nearest-mean"
        assert DcidSettings(preset=kind.format("lucir")).imprint_at == "fleet"
        assert DcidSettings(preset=kind.format("lucir")).evaluation == "head"


@pytest.mark.parametrize(
    ("settings", "phases"),
    [
        ({}, (("share",), ("train", "distil"), ())),
        ({"dad": False}, (("share",), ("train", "distil"), ())),
        ({"dcd": False}, (("share",), ("train-alone",), ())),
        ({"dcd": False, "dad": False}, ((), ("train-alone",), ())),
        ({"shared_per_class": 0}, ((), ("train-alone",), ())),
        ({"shared_set": "public", "shared_per_class": 0}, ((), ("train", "distil"), ())),
        ({"shared_set": "synthetic"}, ((), ("train", "distil"), ())),
        ({"running_statistics": "re-estimated", **ALONE}, (("share",), ("train-alone",), ())),
        ({"preset": "dcid-lucir", "imprint_at": "fleet"}, LUCIR_PHASES),
        ({"imprint_at": "fleet", **ALONE}, ((), ("train-alone",), ())),
        ({"evaluation": "nearest-mean"}, (("share",), ("train", "distil"), ("means",))),
    ],
)
def test_phases_follow_from_the_settings(settings, phases):
    of = assignment(**settings)
    assert (of.opening_phases, of.round_phases, of.closing_phases) == phases


def test_owners_can_tell_from_the_card_what_a_phase_sends():
    assert isinstance(DESCRIPTOR, Descriptor)
    kinds = {
        phase: DESCRIPTOR.kind_of(phase)
        for phase in ("share", "imprint", "train", "distil", "train-alone", "means")
    }
    assert kinds["share"] == "images"
    assert kinds["train"] == "logits"
    others = ("imprint", "distil", "train-alone", "means")
    assert {kinds[phase] for phase in others} == {"weights"}


def test_an_assignment_says_what_it_needs():
    assert assignment().coordinator_trains
    assert not assignment(dad=False).coordinator_trains
    assert not assignment(shared_per_class=0).coordinator_trains
    assert assignment(**ALONE, running_statistics="re-estimated").coordinator_trains
    assert not assignment(**ALONE, running_statistics="sent").coordinator_trains
    assert assignment(shared_set="public").needs_shared
    assert not assignment(shared_set="public", dcd=False, dad=False).needs_shared
    assert assignment(base="central").first_weights_suffice
    assert not assignment().first_weights_suffice


def test_an_assignment_survives_the_ledger():
    of = assignment(preset="dcid-lucir", decrease_epochs=(3, 5))
    assert COORDINATOR.read_assignment(of.model_dump(mode="json")) == of


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"learner": "lucir", "head": "linear"}, "LUCIR compares cosines"),
        ({"scores": "sigmoid", "head": "cosine"}, "sigmoids need a bias"),
        ({"preset": "dcid-ewc"}, "preset"),
        ({"tau1": 0}, "tau1"),
        ({"running_statistics": "re-estimated", "shared_per_class": 0}, "give shared_per_class"),
        ({"distil_norm": "frozen"}, "distil_norm"),
        ({"momentun": 0.5}, "momentun"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(settings, told):
    with pytest.raises(ValidationError, match=told):
        DcidSettings(**settings)


def test_a_network_on_features_is_refused():
    with pytest.raises(MethodError, match="features of a frozen backbone"):
        COORDINATOR.assign({}, (1280,))


def test_a_network_that_cannot_see_the_pictures_is_refused():
    with pytest.raises(MethodError, match=r"settings\.network: 'fam'"):
        COORDINATOR.assign({"network": "fam"}, SHAPE)
