"""Whether the fleet got better, as versions of the model were measured on devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import ModelRules, Rules, StageRules
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.version_accuracy import (
    AccuracyByVersion,
    VersionAccuracy,
    version_accuracies,
)
from tests.coordinator.core.harness import Bench, contribution
from tests.coordinator.reports.test_old_and_new_classes import evaluate, two_stages
from tests.coordinator.reports.test_views import RULES, write
from tests.coordinator.topics.models.test_models import wanted


def test_each_measured_version_has_its_stage_and_its_shares(tmp_path: Path) -> None:
    write(tmp_path, two_stages())
    with ledger_of(tmp_path) as ledger:
        found = version_accuracies(ledger, 10)
        known = state_of(ledger).models
        listed = {version: known.measured_all(version).accuracy for version in known.by_version}
    assert found.measured == 2
    assert found.versions == (
        VersionAccuracy(
            version=1, stage=1, classes=2, devices=1, all=19 / 20, old=None, new=19 / 20
        ),
        VersionAccuracy(
            version=2, stage=2, classes=3, devices=2, all=28 / 34, old=25 / 30, new=3 / 4
        ),
    )
    assert {one.version: one.all for one in found.versions} == listed
    assert found.change == (
        "Model 2 is right for 82.4 % over all classes, 12.6 points fewer than model 1; model 1 had "
        "the most: 95.0 %."
    )


def test_without_a_measurement_nothing_is_claimed(tmp_path: Path) -> None:
    bench = Bench(RULES)
    bench.begin("dev-1")
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        found = version_accuracies(ledger, 10)
    assert (found.versions, found.change) == ((), "No version has been measured.")


def shown(*shares: float) -> AccuracyByVersion:
    return AccuracyByVersion(
        measured=len(shares),
        of_pixels=False,
        versions=tuple(
            VersionAccuracy(
                version=number, stage=1, classes=2, devices=1, all=share, old=None, new=share
            )
            for number, share in enumerate(shares, 1)
        ),
    )


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ((0.9,), "Model 1 is right for 90.0 % over all classes; no other version was measured."),
        ((0.8, 0.9), "90.0 % over all classes, 10.0 points more than model 1; the most so far."),
        ((0.9, 0.9), "90.0 % over all classes, the same as model 1; the most so far."),
        ((0.9, 0.95, 0.94), "1.0 points fewer than model 2; model 2 had the most: 95.0 %."),
    ],
)
def test_the_newest_is_compared_with_the_one_before_and_with_the_best(
    shares: tuple[float, ...], said: str
) -> None:
    assert shown(*shares).change.endswith(said)


def test_of_many_versions_the_first_and_the_two_newest_are_shown(tmp_path: Path) -> None:
    models = ModelRules(solve_every_seconds=5, longest_pause_seconds=5)
    bench = Bench(Rules(stages=StageRules(quiet_seconds=1), models=models))
    bench.begin("dev-1")
    for part in range(7):
        bench.give("dev-1", contribution(f"part {part}", part=part))
        bench.make_model(wanted([*bench.wait(6), *bench.wait(6)]))
        evaluate(bench, "dev-1", part + 1, cat=(part, 10))
    write(tmp_path, bench)
    for most, versions in ((7, [1, 2, 3, 4, 5, 6, 7]), (4, [1, 3, 6, 7]), (3, [1, 6, 7])):
        with ledger_of(tmp_path) as ledger:
            found = version_accuracies(ledger, most)
        assert [one.version for one in found.versions] == versions
        assert found.measured == 7
