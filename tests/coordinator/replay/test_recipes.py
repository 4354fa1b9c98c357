"""Recipes are read out of the entries: who was summed, under which names, from which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetledger.coordinator.core.work import AverageRound, SolveHead
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.replay.recipes import (
    AveragedRecipe,
    Recipe,
    SolvedRecipe,
    TakenRecipe,
    recipes,
)
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.schemas.values import ClassName
from tests.coordinator.core.harness import Bench, contribution, names, solved
from tests.coordinator.core.phase_bench import SHARING, PhaseBench
from tests.coordinator.core.round_bench import NETWORK, RoundBench
from tests.coordinator.topics.models.test_models import wanted


def written(bench: Bench) -> list[Entry]:
    return [
        Entry(index, time_ns, body.kind, "test", device, body.model_dump(mode="json"))
        for index, (body, device, time_ns) in enumerate(bench.entries)
    ]


def made(bench: Bench) -> list[Recipe]:
    return list(recipes(written(bench)))


@pytest.fixture
def asked() -> tuple[Bench, SolveHead]:
    """A coordinator that waits for the head of two contributions."""
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a", samples={"cat": 3}))
    bench.give("dev-2", contribution("b", samples={"dog": 2}))
    bench.wait(31)
    return bench, wanted(bench.wait(0))


def test_a_recipe_is_the_request_that_the_maker_was_given(asked: tuple[Bench, SolveHead]) -> None:
    bench, request = asked
    bench.handle(solved(request, 2))
    (recipe,) = made(bench)
    assert isinstance(recipe, SolvedRecipe)
    assert recipe.request == replace(request, judging=None)
    assert (recipe.index, recipe.recorded) == (len(bench.entries) - 1, solved(request, 2))


def test_what_came_while_the_head_was_solved_is_no_part_of_it(
    asked: tuple[Bench, SolveHead],
) -> None:
    bench, request = asked
    bench.give("dev-1", contribution("late", part=1, samples={"cat": 9}))
    cat, ocelot = ClassName("cat"), ClassName("ocelot")
    assert bench.command(RenameClass(old=cat, new=ocelot)).done
    bench.handle(solved(request, 2))
    (recipe,) = made(bench)
    assert isinstance(recipe, SolvedRecipe)
    assert recipe.request == replace(request, judging=None), "with the names of before the renaming"
    assert ocelot not in recipe.request.resolution


def test_every_phase_of_a_round_is_a_recipe() -> None:
    bench = PhaseBench(quorum=0.6)
    bench.lead(SHARING)
    for _ in range(3):
        bench.finish_phase(*bench.devices)
    found = made(bench)
    assert [recipe.recorded.number for recipe in found] == [1, 2, 3]  # type: ignore[union-attr]
    for recipe in found:
        assert isinstance(recipe, AveragedRecipe)
        assert recipe.request.opened.number == recipe.recorded.number
        indices = tuple(item.index for item in recipe.request.inputs)
        assert indices == recipe.recorded.inputs


def test_a_round_is_the_request_that_the_maker_was_given() -> None:
    bench = RoundBench()
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    (recipe,) = made(bench)
    assert isinstance(recipe, AveragedRecipe)
    assert recipe.request == request


def test_first_weights_that_are_taken_as_a_model_are_what_was_imported() -> None:
    bench = RoundBench()
    enough = {"class_names": names("cat", "dog"), "first_weights_suffice": True}
    bench.lead(NETWORK.model_copy(update=enough))
    bench.wait(0)
    (recipe,) = made(bench)
    assert isinstance(recipe, TakenRecipe)
    assert recipe.weights == NETWORK.weights.digest == recipe.recorded.head


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ledger_size": 0}, "it is of 2 contributions, and 0 entries hold 0"),
        ({"contributions": 3}, "it is of 3 contributions, and [0-9]+ entries hold 2"),
        ({"ledger_size": 999}, "it is of 999 entries, and has to be of 0 to"),
        ({"lineage": "0" * 64}, "was never imported"),
    ],
)
def test_an_entry_of_something_that_is_not_there_is_named(
    asked: tuple[Bench, SolveHead], changes: dict[str, object], why: str
) -> None:
    bench, request = asked
    bench.handle(solved(request, 2))
    *before, last = written(bench)
    changed = Entry(last.index, 0, last.kind, "test", None, {**last.body, **changes})
    with pytest.raises(LedgerError, match=rf"entry {last.index}: .*{why}"):
        list(recipes([*before, changed]))


def test_entries_of_a_later_version_are_passed_over(asked: tuple[Bench, SolveHead]) -> None:
    bench, _ = asked
    later = Entry(len(bench.entries), 0, "something.new", "test", None, {"whatever": 1})
    assert list(recipes([*written(bench), later])) == []
    assert ModelSolved.kind not in [entry.kind for entry in written(bench)]
