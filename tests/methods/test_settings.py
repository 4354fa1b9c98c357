"""Presets fill in what nobody gave."""

from __future__ import annotations

from fleetledger.methods.settings import filled_in

PRESETS = {"slow": {"rate": 1, "epochs": 9}, "fast": {"rate": 5}}


def test_what_is_given_wins_over_the_preset():
    given = {"preset": "slow", "rate": 3}
    assert filled_in(given, "preset", PRESETS, "fast") == {**given, "epochs": 9}


def test_the_default_preset_counts_where_none_is_given():
    assert filled_in({}, "preset", PRESETS, "fast") == {"rate": 5}


def test_an_unknown_preset_and_what_is_no_mapping_are_left_to_validation():
    assert filled_in({"preset": "none"}, "preset", PRESETS, "fast") == {"preset": "none"}
    assert filled_in([3], "preset", PRESETS, "fast") == [3]
