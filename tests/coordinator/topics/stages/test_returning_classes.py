"""A stage may be opened for classes that return: each has one index and one first stage."""

from __future__ import annotations

from fleetledger.coordinator.topics.classes.entries import ClassNamed
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.assignments import Assignment
from tests.coordinator.core.harness import Bench, contribution, names, sent
from tests.coordinator.core.round_bench import NETWORK, RoundBench


def test_a_stage_of_classes_that_return_names_none_again() -> None:
    bench = Bench()
    bench.begin("dev-1", classes=("cat", "dog"))
    answer = bench.command(OpenStage(class_names=names("dog", "cat")))
    assert answer.done, answer.text
    state = bench.core.state
    assert state.stages.current == 2
    assert state.classes.indices == {"cat": 0, "dog": 1}
    assert state.class_stages(names("cat", "dog")) == (1, 1)
    assert sum(isinstance(body, ClassNamed) for body, *_ in bench.entries) == 2
    (told,) = sent(bench.born("dev-1"), Assignment)
    assert isinstance(told, Assignment)
    assert (told.stage, told.stage_class_names) == (2, names("dog", "cat"))


def test_sums_count_a_class_of_an_earlier_stage_in_a_later_one() -> None:
    bench = Bench()
    bench.begin("dev-1", classes=("cat", "dog"))
    bench.command(OpenStage(class_names=names("eel")))
    bench.give("dev-1", contribution("sums", stage=2, samples={"cat": 3, "eel": 4}))
    held = bench.core.state.contributions.learned_names()
    assert set(held) == set(names("cat", "eel"))


def test_a_method_that_learns_a_class_in_one_stage_opens_none_that_returns() -> None:
    bench = RoundBench()
    bench.lead(NETWORK.model_copy(update={"method": "dcid"}))
    answer = bench.command(OpenStage(class_names=names("eel", "dog")))
    assert not answer.done
    assert answer.text == (
        "class_names: 'dog' came with stage 1, and 'dcid' learns a class in one stage; leave it "
        "out, or lead with another method"
    )
    assert bench.command(OpenStage(class_names=names("eel"))).done
