"""Poisoned fleets of digits: the goal figures hold for one seed, and cells are gone on with."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.inspection.attacks import ATTACKS
from benchmarks.papers.inspection.cells import CRAFTED, NONE, measured
from benchmarks.papers.inspection.crafted import Aim, Liar
from benchmarks.papers.inspection.fleet import Fleet
from benchmarks.papers.inspection.pictures import Pictures, digits, with_trigger
from benchmarks.papers.inspection.run import cells, study
from benchmarks.papers.inspection.tables import tables

WIDTH = 200


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return digits(WIDTH)


@pytest.fixture(scope="module")
def fleet(pictures: Pictures) -> Fleet:
    return Fleet(pictures, 0.3, 1, "compact")


def test_without_an_attack_nobody_is_flagged(fleet):
    found = measured(fleet, NONE, 0.0)
    assert (found["flagged"], found["aside"], found["warning"]) == ([0, 0], [0, 0], False)
    assert found["accuracy"]["after"] == found["accuracy"]["clean"] > 93


@pytest.mark.parametrize("attack", ["rotated labels", "random labels", "backdoor", "camera: noise"])
def test_all_of_a_sixth_are_found_and_the_clean_accuracy_is_back(fleet, attack):
    found = measured(fleet, attack, 0.15)
    assert (found["bad"], found["refused"], found["flagged"]) == (6, 0, [6, 0])
    assert found["accuracy"]["after"] == found["accuracy"]["clean"]
    if attack == "backdoor":
        assert found["trigger"]["before"] > 80
        assert found["trigger"]["after"] < 5


def test_intake_itself_refuses_sums_of_no_samples(fleet):
    told = ATTACKS["scaled sums"].told(fleet, fleet.bad(0.15)[0])
    assert told.aggregate is None
    assert told.refused.startswith("correlation: ")


def test_at_four_in_ten_there_is_a_warning(fleet):
    assert measured(fleet, "rotated labels", 0.4)["warning"]


def test_a_liar_costs_more_than_as_many_wrong_labels(fleet, pictures):
    settings = pictures.told.settings
    liar = Liar(
        pictures.train.astype(np.float64),
        pictures.train_labels,
        settings.ridge_value,
        settings.largest,
    )
    made, names = liar.samples(Aim.of(70, steps=20))
    assert 0 <= made.min() <= made.max() <= settings.largest
    wrong = pictures.train[:70], (pictures.train_labels[:70] + 1) % 10
    honest, after = fleet.honest, []
    for samples in (wrong, (made.astype(np.float32), names)):
        told = fleet.told(samples)
        assert told.aggregate is not None, "intake takes it: it is of samples"
        after.append(fleet.measured([*honest, told.aggregate], 0)[0])
    assert after[1] < after[0] - 5


def test_a_trigger_lies_in_the_last_corner_alone():
    images = np.full((2, 12, 12, 3), 100, np.uint8)
    marked = with_trigger(images)
    assert (marked[:, -2:, -2:] != 100).all()
    assert (marked[:, :-2] == 100).all()
    assert (marked[:, :, :-2] == 100).all()


def test_a_cell_that_is_stored_is_not_run_again(pictures, tmp_path: Path, monkeypatch):
    options = Namespace(
        shares=[0.0], seeds=[1], form="compact", attacks=[], out=tmp_path / "inspection.json"
    )
    study("digits", pictures, options)
    first = json.loads(options.out.read_text("utf-8"))["cells"]
    assert len(first) == 2
    monkeypatch.setattr("benchmarks.papers.inspection.run.measured", None)
    study("digits", pictures, options)
    assert json.loads(options.out.read_text("utf-8"))["cells"] == first
    table = options.out.with_suffix(".md").read_text("utf-8")
    assert table == tables(first)
    assert "digits, compact, Dirichlet 0.3, 0 % bad devices" in table


def test_cells_are_every_attack_at_every_share():
    assert list(cells([0.0, 0.15], ["backdoor", CRAFTED])) == [
        (NONE, 0.0),
        ("backdoor", 0.15),
        (CRAFTED, 0.15),
    ]
