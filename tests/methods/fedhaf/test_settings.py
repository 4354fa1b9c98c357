"""Settings: the page's defaults, the paper's ablations, and what does not fit together."""

from __future__ import annotations

import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.coordinator import COORDINATOR
from fleetledger.methods.fedhaf.settings import PRESETS, FedHafSettings
from fleetledger.methods.registry import descriptor


def test_the_card_says_that_it_trains_on_features():
    assert descriptor("fedhaf").on_features
    assert descriptor("fedhaf").trains
    assert not descriptor("rounds").on_features
    assert not descriptor("stsa").on_features


def test_defaults_are_the_papers_where_it_has_them():
    settings = FedHafSettings()
    losses = ("feature_distance", "feature_balance", "cross_entropy", "distillation")
    assert [getattr(settings, name) for name in losses] == [2, 1, 1, 1]
    assert (settings.head_rate, settings.exemplar_ratio) == (0.02, 0.2)
    assert (settings.temperature, settings.kd_direction) == (1, "student_first")
    assert (settings.ce_scope, settings.stages, settings.adapter) == ("task", "two", "fam")
    assert (settings.hidden, settings.width) == (512, 256)


def test_defaults_are_those_that_train_where_the_paper_is_silent_or_diverges():
    settings = FedHafSettings()
    assert (settings.fd_reduction, settings.adapter_rate) == ("mean", 1e-3)
    assert (settings.head_epochs, settings.adapter_epochs, settings.batch) == (10, 2, 64)
    assert (settings.momentum, settings.weight_decay, settings.dropout) == (0.9, 5e-4, 0.1)
    assert (settings.exemplar_cap, settings.reinit) == (None, False)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_changes_what_it_says_and_nothing_else(preset):
    plain = FedHafSettings().model_dump()
    made = FedHafSettings(preset=preset).model_dump()
    changed = {name for name in plain if made[name] != plain[name]} - {"preset"}
    assert {name: made[name] for name in changed} == dict(PRESETS[preset])


def test_what_is_given_beside_a_preset_wins():
    assert FedHafSettings(preset="without-kd", distillation=0.5).distillation == 0.5
    again = COORDINATOR.assign({"preset": "replay", "batch": 9}, (7,))
    assert COORDINATOR.read_assignment(again.model_dump(mode="json")) == again


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ce_rows": "all"}, "ce_scope: 'task' leaves out the classes of exemplars"),
        ({"preset": "fedhuff"}, "preset"),
        ({"exemplar_ratio": 1.5}, "exemplar_ratio"),
        ({"dropout": 1.0}, "dropout"),
        ({"batch": 1}, "batch"),
        ({"head_rate": 0.0}, "head_rate"),
        ({"lambda_fd": 2.0}, "lambda_fd"),
    ],
)
def test_wrong_settings_are_told_by_field(settings, why):
    with pytest.raises(MethodError, match=why):
        COORDINATOR.assign(settings, (8,))


def test_pictures_are_refused_in_words():
    with pytest.raises(MethodError, match="import the network with one"):
        COORDINATOR.assign({}, (3, 32, 32))


def test_plain_averaging_needs_no_old_model():
    assert FedHafSettings().needs_old_model
    assert FedHafSettings(preset="without-stages").needs_old_model
    assert not FedHafSettings(preset="fedavg-replay").needs_old_model
