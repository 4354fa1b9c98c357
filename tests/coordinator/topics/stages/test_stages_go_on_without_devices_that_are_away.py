"""A stage does not wait for devices that have been away for long, or are silent."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.rules import Rules, SilenceRules, StageRules
from fleetledger.coordinator.settings import CoordinatorSettings, rules_of_serving
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.presence import Death
from fleetledger.schemas.values import DeviceId, FleetId
from tests.coordinator.core.harness import Bench, contribution, names

HOUR = 3600.0
STAGES = StageRules(quorum=1.0, quiet_seconds=10, deadline_seconds=1e6, away_seconds=HOUR)


def fleet(rules: Rules) -> Bench:
    bench = Bench(rules)
    bench.wait(0)
    bench.begin("dev-1", "dev-2")
    return bench


def reason(bench: Bench) -> str:
    bench.wait(20)
    closed = [body for body, _, _ in bench.entries if isinstance(body, StageClosed)]
    return closed[-1].reason if closed else ""


def test_a_device_that_is_away_for_long_is_not_waited_for() -> None:
    bench = fleet(Rules(stages=STAGES))
    bench.message("dev-2", Death())
    bench.give("dev-1", contribution("a"))
    assert reason(bench) == ""
    bench.wait(HOUR)
    assert reason(bench) == "quorum and 10 s of quiet, without dev-2, away for long"


def test_a_stage_that_opens_later_does_not_wait_for_it_at_all() -> None:
    bench = fleet(Rules(stages=STAGES))
    bench.message("dev-2", Death())
    bench.wait(2 * HOUR)
    bench.command(OpenStage(class_names=names("eel")))
    bench.give("dev-1", contribution("a", stage=2, samples={"eel": 2}))
    assert "without dev-2" in reason(bench)


def test_it_is_waited_for_while_it_is_here_and_where_nothing_bounds_it() -> None:
    unbounded = STAGES.model_copy(update={"away_seconds": None})
    for stages, there in ((STAGES, True), (unbounded, False)):
        bench = fleet(Rules(stages=stages))
        if not there:
            bench.message("dev-2", Death())
        bench.give("dev-1", contribution("a"))
        bench.wait(3 * HOUR)
        assert reason(bench) == ""


def test_one_that_comes_back_is_waited_for_again() -> None:
    bench = fleet(Rules(stages=STAGES))
    bench.message("dev-2", Death())
    bench.wait(2 * HOUR)
    bench.born("dev-2")
    bench.command(OpenStage(class_names=names("eel")))
    bench.give("dev-1", contribution("a", stage=2, samples={"eel": 2}))
    assert reason(bench) in ("", "the next stage was opened")
    assert bench.core.state.stages.open == 2


def test_one_that_was_admitted_just_now_is_given_its_time() -> None:
    bench = fleet(Rules(stages=STAGES))
    bench.wait(3 * HOUR)
    bench.command(AdmitDevice(device=DeviceId("dev-3")))
    bench.give("dev-1", contribution("a"))
    bench.give("dev-2", contribution("b"))
    assert reason(bench) == ""
    bench.wait(HOUR)
    assert "without dev-3" in reason(bench)


def test_a_restart_counts_anew_from_its_start() -> None:
    bench = fleet(Rules(stages=STAGES.model_copy(update={"gather_seconds": 0})))
    bench.give("dev-1", contribution("a"))
    bench.restart()
    bench.wait(0)
    bench.born("dev-1")
    assert reason(bench) == ""
    bench.wait(HOUR)
    assert "without dev-2" in reason(bench)


def test_a_silent_device_is_no_part_of_the_quorum() -> None:
    stages = STAGES.model_copy(update={"away_seconds": None})
    silence = SilenceRules(beat_seconds=HOUR, silent_seconds=24 * HOUR)
    bench = fleet(Rules(stages=stages, silence=silence))
    bench.handle(inputs.CoordinatorConnected())
    for _ in range(30):
        bench.wait(HOUR)
    bench.give("dev-1", contribution("a"))
    bench.wait(HOUR)
    assert reason(bench) == "quorum and 10 s of quiet"


def test_a_coordinator_that_serves_waits_for_an_hour() -> None:
    settings = CoordinatorSettings(fleet=FleetId("orchard"))
    assert rules_of_serving(settings).stages.away_seconds == HOUR
    own = settings.model_copy(update={"stages": STAGES.model_copy(update={"away_seconds": 5})})
    assert rules_of_serving(own).stages.away_seconds == 5
