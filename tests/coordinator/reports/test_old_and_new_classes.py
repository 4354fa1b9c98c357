"""What a model knew before and what came last are told apart by the stages that brought classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.old_and_new_classes import (
    ClassCount,
    CorrectRatios,
    class_counts,
    correct_ratios,
    newest_classes,
)
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.reports import ClassResult, Evaluation
from tests.coordinator.core.harness import Bench, contribution, exported, names
from tests.coordinator.reports.test_views import RULES, evaluated, write
from tests.coordinator.topics.lineages.test_background import OF_PIXELS
from tests.coordinator.topics.models.test_models import wanted


def evaluate(bench: Bench, device: str, version: int, **shares: tuple[int, int]) -> None:
    """Let a device run a version, and say what it measured."""
    manifest = exported(version).manifest.digest
    bench.message(device, ModelStatus(version=version, manifest=manifest, state="active"))
    results = {
        names(name)[0]: ClassResult(correct=correct, total=total)
        for name, (correct, total) in shares.items()
    }
    evaluation = Evaluation(
        version=version,
        manifest=manifest,
        results=results,
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=10,
        bytes_down=20,
    )
    bench.message(device, evaluation)


def two_stages() -> Bench:
    """Two devices learn cat and dog, then eel; both measure both models."""
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    for device, payload in (("dev-1", "a"), ("dev-2", "b")):
        bench.give(device, contribution(payload, samples={"cat": 3, "dog": 3}))
    bench.wait(1)
    bench.make_model(wanted(bench.wait(0)))
    evaluate(bench, "dev-1", 1, cat=(9, 10), dog=(10, 10))
    bench.command(OpenStage(class_names=names("eel")))
    for device, payload in (("dev-1", "c"), ("dev-2", "d")):
        bench.give(device, contribution(payload, stage=2, samples={"eel": 3}))
    bench.wait(5)
    bench.make_model(wanted(bench.wait(5)))
    evaluate(bench, "dev-1", 2, cat=(8, 10), dog=(10, 10), eel=(1, 2))
    evaluate(bench, "dev-2", 2, cat=(7, 10), eel=(2, 2))
    return bench


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path, two_stages())
    return tmp_path


def test_old_classes_are_those_of_stages_before_the_newest_that_a_model_knows(home: Path) -> None:
    with ledger_of(home) as ledger:
        assert newest_classes(ledger, 1) == {"cat", "dog"}
        assert newest_classes(ledger, 2) == {"eel"}
        assert correct_ratios(ledger, 1) == CorrectRatios(all=19 / 20, old=None, new=19 / 20)
        assert correct_ratios(ledger, 2) == CorrectRatios(all=28 / 34, old=25 / 30, new=3 / 4)


def test_classes_are_known_by_their_present_names(tmp_path: Path) -> None:
    bench = two_stages()
    bench.command(RenameClass(old=names("cat")[0], new=names("tom")[0]))
    bench.command(MergeClasses(source=names("dog")[0], target=names("tom")[0]))
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        assert class_counts(ledger, 2) == {
            "tom": ClassCount(25, 30, of_pixels=False),
            "eel": ClassCount(3, 4, of_pixels=False),
        }
        assert correct_ratios(ledger, 2).old == 25 / 30


def test_of_pixels_the_mean_over_classes_counts(tmp_path: Path) -> None:
    write(tmp_path, evaluated(OF_PIXELS))
    with ledger_of(tmp_path) as ledger:
        counts = class_counts(ledger, 1)
        assert all(count.of_pixels for count in counts.values())
        assert correct_ratios(ledger, 1).all == pytest.approx((0.9 + 0.25) / 2)


def test_of_a_version_that_nobody_measured_nothing_is_known(home: Path) -> None:
    with ledger_of(home) as ledger:
        assert correct_ratios(ledger, 3) == CorrectRatios(None, None, None)


def test_what_was_read_before_is_read_again_where_it_changes(tmp_path: Path) -> None:
    bench = two_stages()

    def ratios(version: int) -> CorrectRatios:
        write(tmp_path, bench)
        bench.entries.clear()
        with ledger_of(tmp_path) as ledger:
            return correct_ratios(ledger, version)

    assert ratios(1).all == 19 / 20
    evaluate(bench, "dev-1", 1, cat=(1, 10), dog=(2, 10))
    assert ratios(1).all == 3 / 20
    evaluate(bench, "dev-2", 1, cat=(10, 10))
    assert ratios(1).all == 13 / 30
    assert ratios(2).new == 3 / 4
    bench.command(MergeClasses(source=names("dog")[0], target=names("eel")[0]))
    assert (ratios(2).old, ratios(2).new) == (None, 28 / 34)
