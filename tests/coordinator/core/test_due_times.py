"""When a coordinator that nobody disturbs has to look again."""

from __future__ import annotations

from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.rules import ModelRules, RoundRules, Rules, StageRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.stages.state import Stage
from tests.coordinator.core.round_bench import RoundBench

RULES = Rules(
    stages=StageRules(quiet_seconds=5.0, deadline_seconds=100.0, open="reports", settle_seconds=7),
    models=ModelRules(solve_every_seconds=30.0),
    rounds=RoundRules(pause_seconds=40.0, gather_seconds=15.0),
)
LATER = 1000


def at(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def look(state: State, live: Live, now: float) -> int | None:
    return next_due(RULES, state, live, at(now))


def test_nothing_is_due_in_an_empty_fleet() -> None:
    assert look(State(), Live(), 0) is None


def test_an_open_stage_is_looked_at_when_it_is_quiet_and_at_its_deadline() -> None:
    stage = Stage(opened_index=0, opened_ns=at(10), asked_ns=at(10), class_names=())
    state = State()
    state.stages.by_number[1] = stage
    assert look(state, Live(), 11) == at(110) + LATER
    state.contributions.last_answer_ns[1] = at(20)
    assert look(state, Live(), 21) == at(25) + LATER
    assert look(state, Live(), 26) == at(110) + LATER
    stage.closed_index = 4
    assert look(state, Live(), 26) is None


def test_the_next_model_and_the_next_reports_have_their_time() -> None:
    live = Live(last_model_ns=at(50))
    assert look(State(), live, 60) == at(80) + LATER
    state = State()
    state.stages.last_report_ns = at(60)
    assert look(state, live, 60) == at(67) + LATER
    assert look(state, live, 81) is None


def test_a_round_has_its_deadline_its_pause_and_the_gathering_after_a_start() -> None:
    bench = RoundBench()
    bench.lead()
    opened, since = bench.core.state.rounds.by_number[1].opened_ns, bench.core.live.since_ns
    assert since is not None

    def due(now_ns: int) -> int | None:
        return next_due(RULES, bench.core.state, bench.core.live, now_ns)

    assert due(opened) == since + at(15) + LATER
    assert due(since + at(20)) == opened + at(100) + LATER
    for device in bench.devices:
        bench.decline(device)
    bench.wait(0)
    assert due(since + at(20)) == bench.now_ns + at(40) + LATER
