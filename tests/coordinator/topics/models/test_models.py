"""A model is solved when a stage closes and at intervals; the newest goes out unless held."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.core.rules import IntakeRules, ModelRules, Rules, StageRules
from fleetledger.coordinator.core.work import (
    ExportHead,
    SolveHead,
)
from fleetledger.coordinator.topics.classes.commands import MergeClasses
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.models.commands import GoBack, HoldModels, PushModel
from fleetledger.coordinator.topics.models.entries import (
    DeviceEvaluated,
    DeviceModelStatus,
    measured_by,
)
from fleetledger.coordinator.topics.models.kinds import not_solved
from fleetledger.coordinator.topics.models.state import SEEN_VERSIONS, Running
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import (
    CAPABLE,
    FLEET,
    Bench,
    contribution,
    exported,
    names,
    sent,
    solved,
)

RULES = Rules(
    stages=StageRules(quiet_seconds=1, deadline_seconds=1000),
    models=ModelRules(solve_every_seconds=60, longest_pause_seconds=60),
)
GROWING = RULES.model_copy(update={"models": ModelRules(solve_every_seconds=60)})


def wanted(requests: list[Request]) -> SolveHead:
    (request,) = [r for r in requests if isinstance(r, SolveHead)]
    return request


def with_closed_stage(rules: Rules = RULES) -> Bench:
    bench = Bench(rules)
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a"))
    bench.give("dev-2", contribution("b", samples={"dog": 2}))
    bench.wait(1)
    return bench


def with_model(rules: Rules = RULES) -> Bench:
    bench = with_closed_stage(rules)
    bench.make_model(wanted(bench.wait(0)))
    return bench


def second_model(bench: Bench) -> list[Request]:
    part = len(bench.core.state.contributions.counted)
    bench.give("dev-1", contribution(f"more {part}", part=part))
    return bench.make_model(wanted(bench.wait(61)))


def test_closing_a_stage_asks_for_a_model_of_everything_held() -> None:
    bench = with_closed_stage()
    recipe = wanted(bench.wait(0))
    assert recipe.version == 1
    assert recipe.ledger_size == bench.core.state.size
    assert recipe.class_names == names("cat", "dog")


def test_a_class_without_images_has_no_row_and_leads_to_no_new_model() -> None:
    bench = with_model()
    bench.command(OpenStage(class_names=names("eel")))
    assert bench.wait(100) == []
    bench.give("dev-1", contribution("e", stage=2, samples={"eel": 1}))
    assert wanted(bench.wait(100)).class_names == names("cat", "dog", "eel")


def test_a_merge_of_classes_leads_to_a_new_model() -> None:
    bench = with_model()
    bench.command(MergeClasses(source=names("dog")[0], target=names("cat")[0]))
    assert wanted(bench.wait(100)).class_names == names("cat")


def test_one_model_is_made_at_a_time_and_not_twice_from_the_same_inputs() -> None:
    bench = with_closed_stage()
    recipe = wanted(bench.wait(0))
    assert bench.wait(100) == []
    bench.make_model(recipe)
    assert bench.wait(1000) == []


def test_a_solved_model_becomes_desired_on_every_device() -> None:
    bench = with_closed_stage()
    desired = sent(bench.make_model(wanted(bench.wait(0))), DesiredModel)
    assert [
        (body.version, len(body.files)) for body in desired if isinstance(body, DesiredModel)
    ] == [
        (1, 3),
        (1, 3),
    ]


def test_waiting_contributions_are_solved_at_most_every_interval() -> None:
    bench = with_model()
    bench.give("dev-1", contribution("c", part=1))
    assert bench.wait(30) == []
    recipe = wanted(bench.wait(30))
    assert recipe.version == 2
    assert bench.core.state.contributions.sum.parts == 3
    assert recipe.ledger_size == bench.core.state.size


def test_an_inspection_before_a_solve_is_asked_for_by_the_setting() -> None:
    for quarantine, inspects in (("off", False), ("ask", True)):
        rules = RULES.model_copy(update={"intake": IntakeRules(quarantine=quarantine)})
        bench = with_model(rules)
        bench.give("dev-1", contribution("late", part=7))
        judging = wanted(bench.wait(1000)).judging
        assert judging is not None
        assert judging.inspects is inspects


def gaps_between_models(bench: Bench, models: int) -> list[float]:
    """Give a part whenever a model was made; return the seconds until the next one is asked for."""
    found = []
    for _ in range(models):
        part = bench.core.state.size
        bench.give("dev-1", contribution(f"trickle {part}", part=part))
        began, asked = bench.now_ns, list[Request]()
        while not asked:
            due = next_due(GROWING, bench.core.state, bench.core.live, bench.now_ns)
            assert due is not None
            requests = bench.wait((due - bench.now_ns) / 1e9)
            asked = [item for item in requests if isinstance(item, SolveHead)]
        found.append(round((bench.now_ns - began) / 1e9, 3))
        assert isinstance(asked[0], SolveHead)
        bench.make_model(asked[0])
    return found


def test_pauses_between_models_double_up_to_a_day() -> None:
    gaps = gaps_between_models(with_model(GROWING), 14)
    assert gaps[:5] == [60, 120, 240, 480, 960]
    assert gaps[-3:] == [86400] * 3


def test_what_is_urgent_makes_the_pause_short_again() -> None:
    bench = with_model(GROWING)
    gaps_between_models(bench, 6)
    before = gaps_between_models(bench, 1)
    given = DeviceId("dev-1")
    bench.command(RetractContributions(device=given, part=PartKey(stage=1, part=0), reason="wrong"))
    recipe = wanted(bench.wait(60))
    bench.make_model(recipe)
    assert before[0] > 3600
    assert gaps_between_models(bench, 1) == [60]


def test_a_pause_goes_on_over_a_restart() -> None:
    bench = with_model(GROWING)
    gaps_between_models(bench, 6)
    bench.give("dev-1", contribution("late", part=7))
    for _ in range(3):
        bench.wait(1000)
        bench.restart()
    assert [item for item in bench.wait(1000) if isinstance(item, SolveHead)]


def test_nothing_is_solved_without_contributions() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1")
    bench.wait(1000)
    assert bench.wait(1000) == []


def test_a_withdrawn_part_leads_to_a_model_without_it() -> None:
    bench = with_model()
    bench.give("dev-1", contribution("a2", revision=1))
    assert wanted(bench.wait(61)).version == 2
    given = bench.core.state.contributions
    payloads = {given.counted[index].payload for index in given.inputs()}
    assert payloads == {contribution("a2").payload, contribution("b").payload}


def test_a_failed_model_is_recorded_and_tried_again_only_with_other_inputs() -> None:
    bench = with_closed_stage()
    recipe = wanted(bench.wait(0))
    why = "ridge: not positive definite"
    bench.handle(not_solved(why, recipe.ledger_size, recipe.class_names))
    assert bench.core.state.models.failed is not None
    assert bench.wait(1000) == []
    bench.give("dev-1", contribution("c", part=1))
    assert wanted(bench.wait(1000)).version == 1


def test_a_head_solved_before_a_crash_is_exported_after_it() -> None:
    bench = with_closed_stage()
    bench.handle(solved(wanted(bench.wait(0))))
    restarted = Bench(RULES, now_ns=bench.now_ns)
    for body, device, time_ns in bench.entries:
        restarted.core.state.apply(body, device, time_ns)
    (request,) = restarted.wait(0)
    assert isinstance(request, ExportHead)
    assert request.solved.version == 1
    restarted.handle(exported(1))
    assert restarted.core.state.models.desired is not None


def test_a_head_of_a_frozen_model_that_no_longer_leads_is_dropped() -> None:
    bench = with_closed_stage()
    recipe = wanted(bench.wait(0))
    stale = solved(recipe).model_copy(update={"lineage": contribution("x").payload})
    bench.handle(stale)
    assert bench.core.state.models.by_version == {}


def test_held_models_wait_for_a_push() -> None:
    bench = with_closed_stage()
    bench.command(HoldModels(held=True))
    assert sent(bench.make_model(wanted(bench.wait(0))), DesiredModel) == []
    requests = bench.handle(inputs.OperatorCommand("t", PushModel(version=1)))
    assert len(sent(requests, DesiredModel)) == 2


def test_a_push_to_some_devices_is_undone_by_a_push_to_all() -> None:
    bench = with_model()
    second_model(bench)
    bench.command(PushModel(version=1, devices=(DeviceId("dev-1"),)))
    state = bench.core.state
    assert state.models.desired_for(DeviceId("dev-1")).version == 1  # type: ignore[union-attr]
    assert state.models.desired_for(DeviceId("dev-2")).version == 2  # type: ignore[union-attr]
    bench.command(PushModel(version=2))
    assert state.models.desired_for(DeviceId("dev-1")).version == 2  # type: ignore[union-attr]


def test_going_back_names_the_version_before_with_a_higher_action_and_holds() -> None:
    bench = with_model()
    (first,) = {r.action for r in sent(second_model(bench), DesiredModel)}  # type: ignore[attr-defined]
    requests = bench.handle(inputs.OperatorCommand("t", GoBack()))
    (back, _) = sent(requests, DesiredModel)
    assert isinstance(back, DesiredModel)
    assert back.version == 1
    assert back.action > first
    assert bench.core.state.models.held


def test_a_version_that_does_not_exist_cannot_be_pushed_nor_gone_back_to() -> None:
    bench = with_model()
    assert "version: 9" in bench.command(PushModel(version=9)).text
    assert not bench.command(GoBack()).done
    stranger = PushModel(version=1, devices=(DeviceId("stranger"),))
    assert "'stranger' is not admitted" in bench.command(stranger).text


def status(bench: Bench, version: int, state: str, reason: str = "") -> ModelStatus:
    manifest = exported(version).manifest.digest
    return ModelStatus.model_validate(
        {"version": version, "manifest": manifest, "state": state, "reason": reason}
    )


def test_what_became_of_a_model_is_recorded_once_per_change() -> None:
    bench = with_model()
    for state in ("fetching", "active", "active", "rolled_back", "active"):
        bench.message("dev-1", status(bench, 1, state))
    bodies = [body for body, *_ in bench.entries if isinstance(body, DeviceModelStatus)]
    kinds = [body.status.state for body in bodies]
    assert kinds == ["active", "rolled_back", "active"]
    assert bench.core.state.models.of(DeviceId("dev-1")).active_version == 1


def test_of_a_device_the_versions_are_remembered_that_it_spoke_of_last() -> None:
    running = Running()
    for version in range(1, SEEN_VERSIONS + 1):
        running.saw(version, "active")
    running.saw(1, "settled")
    running.saw(SEEN_VERSIONS + 1, "active")
    assert running.model_versions_seen[1] == "settled"
    assert 2 not in running.model_versions_seen
    assert len(running.model_versions_seen) == SEEN_VERSIONS


def test_a_lost_report_is_made_up_by_the_next_birth() -> None:
    bench = with_model()
    birth = Birth(
        installation=BootId("0123456789abcdef"),
        capabilities=CAPABLE,
        active_version=1,
        active_manifest=exported(1).manifest.digest,
    )
    bench.senders[DeviceId("dev-2")] = Sender(FLEET, DeviceId("dev-2"), BootId.fresh())
    bench.message("dev-2", birth)
    assert bench.core.state.models.of(DeviceId("dev-2")).active_version == 1


def test_a_retained_birth_says_nothing_new_about_the_model() -> None:
    """The broker gives it again after every reconnect, however old it is by then."""
    bench = with_model()
    bench.senders[DeviceId("dev-1")] = Sender(FLEET, DeviceId("dev-1"), BootId.fresh())
    birth = Birth(
        installation=BootId("0123456789abcdef"),
        capabilities=CAPABLE,
        active_version=1,
        active_manifest=exported(1).manifest.digest,
    )
    bench.message("dev-1", birth)
    second_model(bench)
    bench.message("dev-1", status(bench, 2, "active"))
    size = bench.core.state.size
    bench.message("dev-1", birth)
    assert bench.core.state.models.of(DeviceId("dev-1")).active_version == 2
    assert bench.core.state.size == size


def test_an_evaluation_tells_how_the_machine_was_where_the_device_knows() -> None:
    bench = with_model()
    told = {
        "version": 1,
        "manifest": exported(1).manifest.digest,
        "results": {names("cat")[0]: ClassResult(correct=1, total=2)},
        "provider": "CUDAExecutionProvider",
        "seconds": 12.34,
        "bytes_up": 10,
        "bytes_down": 20,
    }
    warm = {"power_mode": "15W", "celsius": 61.5, "throttled": 2}
    bench.message("dev-1", Evaluation(**told))
    bench.message("dev-2", Evaluation(**told, **warm))
    without, known = (body for body, *_ in bench.entries if isinstance(body, DeviceEvaluated))
    assert measured_by(without) == "CUDAExecutionProvider"
    said = "CUDAExecutionProvider, 12.3 s, power mode 15W, 62 °C, slowed down 2 times"
    assert measured_by(known) == said
    assert not warm.keys() & without.evaluation.model_dump().keys(), (
        "older ledgers have the same bytes"
    )


def test_an_evaluation_is_recorded_once_per_version() -> None:
    bench = with_model()
    evaluation = Evaluation(
        version=1,
        manifest=exported(1).manifest.digest,
        results={names("cat")[0]: ClassResult(correct=1, total=2)},
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=10,
        bytes_down=20,
    )
    bench.message("dev-1", evaluation)
    bench.message("dev-1", evaluation)
    assert sum(body.kind == "device.evaluated" for body, *_ in bench.entries) == 1
