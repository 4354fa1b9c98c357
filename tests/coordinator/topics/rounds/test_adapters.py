"""An adapter on top of the exact head: a stage of its own, and then everything is as before."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.work import AdapterNotPrepared, ExportHead, SolveHead
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import MakeVariants
from fleetledger.coordinator.topics.lineages.entries import MadeVariant, VariantSet
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelSolved
from fleetledger.coordinator.topics.rollouts.entries import RolloutPlanned
from fleetledger.coordinator.topics.rounds.commands import AdaptModel
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.adapter_bench import AdapterBench
from tests.coordinator.core.harness import BACKBONE, Bench, contribution, names, offer
from tests.coordinator.core.round_bench import RoundBench


def versions(bench: Bench) -> list[int]:
    return [body.version for body, _, _ in bench.entries if isinstance(body, ModelSolved)]


def test_it_has_a_stage_for_all_classes_of_the_model() -> None:
    bench = AdapterBench()
    bench.learn(2, "owl")
    bench.begin_adapter()
    stage = bench.core.state.stages.by_number[3]
    assert stage.class_names == names("cat", "dog", "owl")
    assert stage.opened_by == "an adapter on top of model 2"
    assert bench.core.state.lineages.network == bench.network


def test_devices_that_are_held_out_are_asked_by_no_round_and_others_by_each() -> None:
    bench = AdapterBench()
    bench.begin_adapter()
    assert bench.network.adapts is not None
    judges = {
        device for device in bench.devices if bench.network.adapts.judges.has(DeviceId(device))
    }
    assert len(judges) == 2
    for _ in range(2):
        current = bench.core.state.rounds.current
        assert current is not None
        assert current.cohort == set(bench.devices) - judges
        bench.train()
        bench.wait(1)


def test_too_few_judges_are_told_with_the_ways_out() -> None:
    bench = AdapterBench()
    said = bench.command(AdaptModel()).text
    assert "2 of 5 devices have no part in it, and say whether it is better" in said
    assert "they are too few to show it by themselves, 11 are needed" in said
    assert "[adapter.plan.gates] alike" in said


def test_the_frozen_model_leads_again_and_solves_nothing_that_it_had() -> None:
    bench = AdapterBench()
    bench.adapt()
    assert bench.core.state.lineages.current == BACKBONE
    assert bench.core.state.stages.open is None
    assert len(bench.core.state.contributions.inputs()) == 5
    asked = [request for _ in range(100) for request in bench.wait(10)]
    assert not [request for request in asked if isinstance(request, SolveHead)]
    assert versions(bench) == [1, 2]


def test_what_comes_after_it_is_learned_from_all_that_was_ever_given() -> None:
    bench = AdapterBench()
    bench.adapt()
    bench.command(OpenStage(class_names=names("owl")))
    for device in bench.devices:
        bench.give(device, contribution(f"{device} 3", stage=3, samples={"owl": 3}))
    recipe = bench.asked(SolveHead)
    assert (recipe.lineage, recipe.version) == (BACKBONE, 3)
    assert bench.core.state.contributions.sum.parts == 10


def test_a_restart_finds_everything_as_it_was() -> None:
    bench = AdapterBench()
    bench.adapt()
    before = bench.core.state
    bench.restart()
    assert bench.core.state == before


def test_the_operator_who_opens_a_stage_meanwhile_gives_it_up() -> None:
    bench = AdapterBench()
    bench.begin_adapter()
    bench.train()
    bench.command(OpenStage(class_names=names("owl")))
    assert bench.core.state.lineages.current == BACKBONE
    assert bench.core.state.stages.open == 3
    assert versions(bench) == [1]


@pytest.mark.parametrize(("rounds", "made"), [(0, [1]), (1, [1, 2])])
def test_a_stage_that_is_closed_early_gives_what_there_is(rounds: int, made: list[int]) -> None:
    bench = AdapterBench()
    bench.begin_adapter()
    for _ in range(rounds):
        bench.train()
    bench.command(CloseStage())
    for _ in range(3):
        bench.wait(1)
    assert bench.core.state.lineages.current == BACKBONE
    assert versions(bench) == made


def test_variants_and_temperature_of_the_frozen_model_are_there_again() -> None:
    bench = AdapterBench()
    variant = MadeVariant(name="fp16", frozen=offer("fp16"), strays=0.01)
    made = VariantSet(lineage=BACKBONE.digest, variants=(variant,))
    bench.command(MakeVariants(made=made))
    bench.make_model(bench.asked(SolveHead))
    bench.core.state.models.logit_scale = 20.0
    request = bench.train_adapter()
    assert (request.variants, request.logit_scale) == (None, None)
    lineages = bench.core.state.lineages
    assert lineages.variants is not None
    assert lineages.variants.variants == (variant,)
    assert bench.core.state.models.logit_scale == 20.0


def test_it_goes_out_as_a_rollout_that_asks_the_devices_which_did_not_make_it() -> None:
    bench = AdapterBench()
    version = bench.adapt()
    bench.wait(1)
    (planned,) = [body for body, _, _ in bench.entries if isinstance(body, RolloutPlanned)]
    assert bench.network.adapts is not None
    assert (planned.version, planned.former, planned.automatic) == (version, 1, True)
    assert planned.judges == bench.network.adapts.judges
    assert (planned.plan.gates.better, planned.plan.on_unsure) == (100.0, "back")
    told = [body for body, _, _ in bench.entries if isinstance(body, ModelDesired)]
    assert told[-1].group is not None
    assert told[-1].group.mode == "shadow"


def test_why_none_can_be_trained_now_is_said() -> None:
    bench = AdapterBench()
    assert "is not the newest model that was solved" in bench.refusal(7)
    bench.give("dev-1", contribution("more", part=1))
    assert "devices gave something since model 1" in bench.refusal()
    bench.make_model(bench.asked(SolveHead))
    bench.command(OpenStage(class_names=names("owl")))
    assert "stage 2 is open" in bench.refusal()
    bench.command(CloseStage())
    assert "does not know owl" in bench.refusal()


def test_a_fleet_that_trains_a_network_already_has_nothing_to_put_one_on() -> None:
    bench = RoundBench()
    bench.lead()

    answer = bench.command(AdaptModel())
    assert not answer.done
    assert "no frozen model leads" in answer.text


def test_a_fleet_of_one_device_has_nobody_to_judge() -> None:
    bench = Bench()
    bench.begin("dev-1")
    bench.give("dev-1", contribution("a", samples={"cat": 3, "dog": 3}))
    bench.command(CloseStage())
    request = next(r for _ in range(5) for r in bench.wait(40) if isinstance(r, SolveHead))
    bench.make_model(request)

    assert "one trains while another one judges" in bench.command(AdaptModel()).text


def test_what_a_worker_could_not_prepare_is_told_and_hinders_nothing() -> None:
    bench = AdapterBench()
    bench.prepare()
    told = bench.handle(AdapterNotPrepared("sums do not tell how features spread"))
    assert [r.text for r in told if isinstance(r, TellOperator)] == [
        "no adapter is trained: sums do not tell how features spread"
    ]
    assert isinstance(bench.train_adapter(), ExportHead)


def test_who_is_admitted_later_trains_or_judges_by_its_place() -> None:
    bench = AdapterBench()
    bench.begin_adapter()
    assert bench.network.adapts is not None
    judges = bench.network.adapts.judges
    for number in range(6, 30):
        bench.command(AdmitDevice(device=DeviceId(f"dev-{number}")))
    held = [d for d in bench.core.state.devices.admitted if judges.has(d)]
    assert set(held) & set(map(DeviceId, bench.devices))
    assert 2 < len(held) < 29
