"""Settings and assignments: defaults, refusals, and the proof that sums stay exact."""

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.stsa.coordinator import COORDINATOR, frozen_map
from fleetledger.methods.stsa.settings import StsaSettings
from fleetledger.schemas.canonical import canonical_json, parse_json
from tests.methods.stsa.fleet import EVERY_KIND, SMALL, assignment


def test_the_defaults_are_those_of_the_documentation():
    settings = StsaSettings()
    assert (settings.map, settings.map_width, settings.feature_bits) == ("integer", 1250, 7)
    assert (settings.form, settings.compact_bits, settings.logit_scale) == ("compact", 10, 10.0)


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_an_assignment_survives_the_wire(settings):
    told = assignment(settings)
    assert (
        COORDINATOR.read_assignment(parse_json(canonical_json(told.model_dump(mode="json"))))
        == told
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"map_widht": 9}, "method.settings.map_widht: no such setting; did you mean 'map_width'"),
        ({"feature_bits": 6}, "settings.feature_bits: 6"),
        ({"compact_bits": 16}, "settings.compact_bits: 16"),
        ({"form": "small"}, "settings.form: 'small'"),
        ({"ridge": 0}, "settings.ridge: 0"),
        ({"ridge": float("nan")}, "nan"),
        ({"map_width": 10**6}, "settings.map_width: 1000000"),
        ({"map": "gaussian", "ridge": 1.0}, "set form to 'exact' or 'estimated'"),
        ({"map": "gaussian", "form": "exact"}, "ridge: the Gaussian map leaves"),
        ({"noise": "sums"}, "noise: the compact form cannot carry it"),
        ({"split": "shuffled"}, "split: shuffled chunks can hold a class once"),
        ({"form": "estimated", "max_samples_per_part": 1}, "max_samples_per_part: 1; a part"),
        ({"forms": ["small"]}, "settings.forms.0: 'small'"),
        ({"gaussian_steps": (0, -1)}, "gaussian_steps: 0, -1; give"),
        ({"gaussian_steps": (-20, -10)}, "gram: 4096 parts of up to 140737488355327 shifted by 10"),
    ],
)
def test_settings_that_cannot_work_are_named(changed, message):
    base = {"map": "gaussian", "form": "exact", "ridge": 1.0}
    settings = base | changed if "gaussian_steps" in changed else changed
    with pytest.raises(MethodError, match=message):
        COORDINATOR.assign(settings, 16)


def test_ranges_whose_sums_could_round_are_refused_when_the_assignment_is_made():
    wide = {"max_samples_per_part": 1_000_000, "feature_bits": 8, "compact_bits": 8}
    assert COORDINATOR.assign({**wide, "compact_finest": -4}, 16).largest_gram("compact") < 2**53
    with pytest.raises(MethodError, match=r"compact Gram: .* not exact in float64"):
        COORDINATOR.assign({**wide, "compact_finest": -10}, 16)
    fleet = {"max_contributions": 1_000_000, "compact_finest": -8}
    with pytest.raises(MethodError, match=r"gram: 1000000 parts .* more than 64"):
        COORDINATOR.assign({**wide, **fleet}, 16)


def test_too_many_features_without_a_map_are_refused():
    with pytest.raises(MethodError, match="feature_width: 20000; without a map"):
        COORDINATOR.assign({"map": "none"}, 20_000)


def test_the_default_ridge_follows_the_scale_of_the_features():
    assert StsaSettings().ridge_value == 10 * 127**2
    assert StsaSettings(feature_bits=8).ridge_value == 10 * 255**2
    assert StsaSettings(map="none").ridge_value == 10 * 127**2
    assert StsaSettings(ridge=5.0, feature_bits=8).ridge_value == 5.0


def test_the_map_comes_from_the_assignment():
    told = assignment({"map_width": 30, "map_seed": 9})
    assert frozen_map(told).shape == (16, 30)
    assert frozen_map(told).dtype == np.int8
    assert frozen_map(assignment({"map": "none"})) is None
    gaussian = {"map": "gaussian", "form": "exact", "ridge": 1.0, "map_width": 30}
    assert frozen_map(assignment(gaussian)).dtype == np.float32


def test_the_steps_hold_the_largest_row_an_honest_device_can_have():
    told = assignment({"map_width": 5, "max_samples_per_part": 400, "compact_bits": 8})
    steps = told.row_steps
    assert steps.largest * 2.0**steps.coarsest >= np.sqrt(400) * 127
    assert steps.largest * 2.0 ** (steps.coarsest - 1) < np.sqrt(400) * 127 * 1.01


def test_the_default_form_comes_first_and_each_form_once():
    assert StsaSettings().allowed_forms == ("compact",)
    both = StsaSettings(form="exact", forms=("estimated", "exact", "compact"))
    assert both.allowed_forms == ("exact", "compact", "estimated")


def test_few_images_are_held_back_where_groups_may_travel_or_where_that_is_set():
    assert StsaSettings().min_samples_per_class == 1
    assert StsaSettings(forms=("estimated",)).min_samples_per_class == 2
    assert StsaSettings(hold_back=True, group_minimum=5).min_samples_per_class == 5
    assert StsaSettings(form="estimated", hold_back=False).min_samples_per_class == 1


def test_sums_are_proven_for_every_form_that_is_allowed():
    fleet = {"form": "exact", "max_contributions": 1_000_000, "max_samples_per_part": 100_000}
    assert COORDINATOR.assign({**fleet, "feature_bits": 8}, 16).gram_exponent == 0
    mixed = {**fleet, "feature_bits": 8, "forms": ("compact",), "compact_finest": -8}
    with pytest.raises(MethodError, match=r"gram: 1000000 parts .* shifted by 16 bits"):
        COORDINATOR.assign(mixed, 16)
    assert COORDINATOR.assign({**mixed, "max_contributions": 1000}, 16).gram_exponent == -16


def test_the_defaults_are_proven_for_a_large_fleet_of_small_parts():
    settings = COORDINATOR.assign({"forms": ("exact", "estimated")}, 1280).settings
    assert (settings.max_samples_per_part, settings.contribution_limit) == (1000, 100_000)
    gaussian = {"map": "gaussian", "form": "exact", "ridge": 1.0}
    assert COORDINATOR.assign(gaussian, 16).settings.contribution_limit == 4096


def test_a_ridge_from_sums_is_refused_beside_a_noisy_gram_matrix():
    wanted = {**SMALL, "noise": "sums", "ridge": "from-sums"}
    for forms in ({"form": "exact"}, {"form": "estimated", "forms": ["exact"]}):
        with pytest.raises(MethodError, match="ridge: 'from-sums' may choose less than noise"):
            assignment({**wanted, **forms})
    assert assignment({**wanted, "form": "estimated"}).settings.ridge == "from-sums"
    assert assignment({**wanted, "form": "exact", "noise": "counts"}).settings.noise == "counts"
