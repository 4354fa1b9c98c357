"""Births, welcomes, reinstallation and a restored coordinator, through the real rules and store."""

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.requests import Send, SendHeartbeat
from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.device_agent.program.status import describe_wire
from fleetledger.schemas.contributions import Contribution, Nothing, Withdrawal
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import BootId
from fleetledger.schemas.wire import WireRange
from tests.device_agent import making
from tests.device_agent.core.driving import Driven


def births(agent: Driven) -> list[Send]:
    return [request for request in agent.take(Send) if isinstance(request.body, Birth)]


def test_a_connection_begins_with_a_retained_birth(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    (birth,) = births(agent)
    assert (birth.leaf, birth.retain) == ("state", True)
    assert birth.body.installation == agent.store.installation


def test_the_installation_stays_the_same_over_restarts_and_the_boot_does_not(agent: Driven) -> None:
    before = agent.state.identity
    agent.kill()
    assert agent.state.identity.installation == before.installation
    assert agent.state.identity.boot != before.boot


def test_births_are_repeated_until_the_welcome(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    agent.wait(100)
    assert len(births(agent)) == 1, "nobody is there to answer"
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    agent.wait(5)
    agent.wait(10)
    assert len(births(agent)) == 3
    agent.connect()
    births(agent)
    agent.wait(1000)
    assert births(agent) == []


def test_nothing_but_births_and_heartbeats_goes_out_before_the_welcome(agent: Driven) -> None:
    agent.put(a="cat/1")
    agent.give(inputs.AgentConnected())
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    agent.assign("cat")
    agent.wait(60)
    assert agent.job() is None, "free part numbers are not known yet"
    assert {type(request.body) for request in agent.take(Send)} == {Birth}
    assert agent.messages() == []


def test_a_welcome_to_another_boot_is_none(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    agent.give(inputs.Welcomed(making.COORDINATOR, making.welcome(BootId.fresh())))
    assert not agent.state.presence.welcomed


def test_a_welcome_of_several_pages_is_complete_with_the_last(agent: Driven) -> None:
    boot = agent.state.identity.boot
    agent.give(inputs.AgentConnected())
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    first = making.welcome(boot, making.held(0, 0, "a"), more=True, next_part=2)
    agent.give(inputs.Welcomed(making.COORDINATOR, first))
    assert agent.messages() == []
    last = making.welcome(boot, making.held(1, 3, "b"), next_part=2)
    agent.give(inputs.Welcomed(making.COORDINATOR, last))
    assert {(body.key.part, body.revision) for body in agent.messages()} == {(0, 1), (1, 4)}


def test_a_death_counts_only_for_the_run_that_it_names(agent: Driven) -> None:
    agent.connect()
    agent.give(inputs.CoordinatorDied(making.LATER_COORDINATOR))
    assert agent.state.presence.welcomed
    agent.give(inputs.CoordinatorDied(making.COORDINATOR))
    assert not agent.state.presence.welcomed


def test_a_new_run_of_the_coordinator_gets_a_new_birth(agent: Driven) -> None:
    agent.connect()
    births(agent)
    agent.give(inputs.CoordinatorBorn(making.LATER_COORDINATOR, making.born()))
    assert len(births(agent)) == 1
    assert not agent.state.presence.welcomed
    agent.give(inputs.CoordinatorBorn(making.LATER_COORDINATOR, making.born()))
    assert births(agent) == []


def test_a_welcome_may_overtake_the_birth_of_the_coordinator(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    answer = making.welcome(agent.state.identity.boot, making.held(0, 0, "a"), next_part=1)
    agent.give(inputs.Welcomed(making.COORDINATOR, answer))
    assert agent.messages() == []
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    assert [type(body) for body in agent.messages()] == [Withdrawal]


def test_heartbeats_come_every_few_seconds_while_connected(agent: Driven) -> None:
    agent.wait(60)
    assert agent.take(SendHeartbeat) == []
    agent.connect()
    for _ in range(3):
        agent.wait(agent.rules.heartbeat_seconds)
    assert len(agent.take(SendHeartbeat)) == 3


def test_a_reinstalled_agent_withdraws_what_it_does_not_have_before_contributing(
    agent: Driven,
) -> None:
    agent.put(a="cat/1")
    agent.connect(making.held(0, 0, "old"), making.held(1, 2, "older"), next_part=2)
    agent.assign("cat")
    agent.compute()
    withdrawals = agent.messages()
    assert {(body.kind, body.key.part, body.revision) for body in withdrawals} == {
        ("withdrawal", 0, 1),
        ("withdrawal", 1, 3),
    }
    agent.receipt(making.accepted("withdrawal", making.part_key(1, 0), revision=1))
    assert agent.messages() == []
    agent.receipt(making.accepted("withdrawal", making.part_key(1, 1), revision=3))
    (body,) = agent.messages()
    assert isinstance(body, Contribution)
    assert body.key.part == 2


def test_a_withdrawal_that_was_refused_is_not_repeated_in_the_same_connection(
    agent: Driven,
) -> None:
    agent.connect(making.held(0, 0, "old"), next_part=1)
    agent.messages()
    agent.receipt(making.refused("withdrawal", making.part_key(), revision=1))
    agent.wait(100)
    assert agent.messages() == []


def test_what_a_restored_coordinator_lacks_is_given_again(ready: Driven) -> None:
    ready.put(a="cat/1", b="dog/2")
    ready.scan()
    ready.compute("payload")
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.messages()
    ready.connect(coordinator=making.LATER_COORDINATOR, ledger_size=5)
    assert ready.contents_of_job() == {"cat/a": "cat", "dog/b": "dog"}
    ready.compute("payload")
    (body,) = ready.messages()
    assert isinstance(body, Contribution)
    assert (body.key, body.revision) == (making.part_key(), 1)
    assert ready.store.load().dead_letters == 0


def test_what_a_restored_coordinator_lacks_and_the_disk_too_is_left(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute()
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.put()
    ready.scan()
    ready.messages()
    ready.connect(coordinator=making.LATER_COORDINATOR)
    assert ready.job() is None
    assert ready.messages() == []
    ready.put(a="cat/1")
    ready.scan()
    assert ready.job() is not None, "the image came back"


def test_a_part_that_is_held_as_said_is_not_computed_again(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("payload")
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.connect(making.held(0, 0, "payload"), next_part=1)
    ready.scan()
    assert ready.job() is None


def test_a_part_accepted_after_the_birth_is_known_to_be_held(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("payload")
    ready.give(inputs.AgentConnected())
    ready.receipt(making.accepted("contribution", making.part_key()))
    stale = making.welcome(ready.state.identity.boot, next_part=0)
    ready.give(inputs.Welcomed(making.COORDINATOR, stale))
    assert ready.job() is None


def test_a_part_of_which_the_coordinator_holds_another_revision_is_computed_anew(
    ready: Driven,
) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("payload")
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.messages()
    ready.connect(making.held(0, 6, "from a newer disk"), next_part=1)
    assert ready.job().revision == 7


def test_a_shorter_ledger_begins_its_actions_anew_and_is_reported(ready: Driven) -> None:
    ready.assign("cat", "dog", action=500)
    ready.give(inputs.CoordinatorDied(making.COORDINATOR))
    ready.connect(coordinator=making.LATER_COORDINATOR, ledger_size=20)
    (told,) = ready.sent(Problem)
    assert "20 entries" in told.text
    assert "500" in told.text
    ready.assign("cat", boot=making.LATER_COORDINATOR, action=15)
    assert ready.state.records.assignment.action == 15
    assert ready.store.load().ledger_boot == making.LATER_COORDINATOR


def test_a_longer_ledger_keeps_old_actions_old(ready: Driven) -> None:
    ready.assign("cat", "dog", action=500)
    ready.connect(coordinator=making.LATER_COORDINATOR, ledger_size=501)
    ready.give(inputs.Assigned(making.LATER_COORDINATOR, making.assignment("cat", action=499)))
    assert ready.state.records.assignment.action == 500
    assert ready.sent(Problem) == []


def test_a_stage_that_a_restored_ledger_has_not_opened_is_waited_for(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.assign("cat", action=500, stage=3)
    ready.compute()
    ready.messages()
    ready.connect(coordinator=making.LATER_COORDINATOR, ledger_size=20)
    ready.assign("cat", boot=making.LATER_COORDINATOR, action=10, stage=2)
    assert [body for body in ready.messages() if isinstance(body, Contribution)] == []
    ready.assign("cat", boot=making.LATER_COORDINATOR, action=30, stage=3)
    assert [body.key.stage for body in ready.messages() if isinstance(body, Contribution)] == [3]


def test_after_a_restored_ledger_nothing_is_said_again(agent: Driven) -> None:
    agent.connect()
    agent.assign("cat", action=500)
    agent.receipt_for_nothing()
    agent.messages()
    agent.connect(coordinator=making.LATER_COORDINATOR, ledger_size=20)
    agent.assign("cat", boot=making.LATER_COORDINATOR, action=10)
    assert agent.messages() == [Nothing(stage=1)]


def test_many_problems_are_told_as_a_few_and_a_number(ready: Driven) -> None:
    problems = tuple(Problem(about="image", text=f"image {n}") for n in range(50))
    ready.scan(problems=problems)
    told = [problem.text for problem in ready.sent(Problem)]
    assert told[:20] == [f"image {n}" for n in range(20)]
    assert told[20:] == ["30 more problems like these; `fleetledger agent status` has the count"]


def spread_birth(agent: Driven, seconds: int = 200) -> None:
    """Have the coordinator of a large fleet announce itself, and the device welcomed by it."""
    birth = making.born().model_copy(update={"spread_seconds": seconds})
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, birth))


def first_birth(agent: Driven, within: int) -> int | None:
    """Return after how many seconds a birth is sent."""
    births(agent)
    for second in range(within):
        agent.wait(1)
        if births(agent):
            return second
    return None


def test_a_large_fleet_greets_a_new_coordinator_one_device_after_the_other(agent: Driven) -> None:
    agent.connect()
    waited = []
    for _ in range(8):
        agent.kill()
        agent.give(inputs.AgentConnected())
        births(agent)
        spread_birth(agent)
        waited.append(first_birth(agent, 201))
    found = [seconds for seconds in waited if seconds is not None]
    assert len(found) == 8, "nobody waits for longer than it was asked to"
    assert max(found) - min(found) > 50


def test_births_are_spread_where_the_broker_has_forgotten_the_fleet_and_only_there(
    agent: Driven,
) -> None:
    agent.connect()
    spread_birth(agent)
    agent.give(inputs.Welcomed(making.COORDINATOR, making.welcome(agent.state.identity.boot)))
    births(agent)
    agent.give(inputs.AgentDisconnected())
    agent.give(inputs.AgentConnected(forgotten=False))
    agent.wait(1)
    assert len(births(agent)) == 1, "it alone was away"
    agent.give(inputs.AgentDisconnected())
    agent.give(inputs.AgentConnected(forgotten=True))
    due = agent.state.presence.birth.due
    assert 0 < due - agent.now < 200


def test_in_a_large_fleet_a_device_says_seldom_that_it_is_alive(agent: Driven) -> None:
    agent.connect()
    spread_birth(agent, 300)
    agent.take(SendHeartbeat)
    for _ in range(1200):
        agent.wait(1)
    assert len(agent.take(SendHeartbeat)) in {4, 5}, "once in the time that births are spread over"


def test_nothing_is_given_while_two_coordinators_run(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("payload")
    ready.messages()
    one, other = making.COORDINATOR, making.LATER_COORDINATOR
    for boot, beside in ((one, other), (other, one), (one, other)):
        birth = making.born().model_copy(update={"beside": (beside,)})
        ready.give(inputs.CoordinatorBorn(boot, birth))
        ready.wait(100)
        assert ready.messages() == []
    (problem,) = [item for item in standing_problems(ready.state) if item.about == "coordinator"]
    assert one in problem.text
    assert other in problem.text
    ready.give(inputs.CoordinatorDied(other))
    ready.give(inputs.CoordinatorBorn(one, making.born()))
    assert ready.state.presence.coordinator == one
    assert ready.state.records.outbox, "nothing was lost"


def test_versions_of_the_wire_are_agreed_by_the_coordinators_birth(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    (birth,) = (request.body for request in births(agent))
    assert birth.wire == WireRange()
    for highest in (1, 3):
        wide = making.born().model_copy(update={"wire": WireRange(highest=highest)})
        agent.give(inputs.CoordinatorBorn(BootId.fresh(), wide, making.digest("birth")))
        (referred,) = agent.take(requests.ReferTo)
        assert (referred.birth, referred.version) == (making.digest("birth"), 1)
        assert describe_wire(agent.state).startswith("version 1;")


def test_an_agent_without_a_common_version_gives_nothing_and_says_so_once(ready: Driven) -> None:
    ready.put(a="cat/1")
    newer = making.born().model_copy(update={"wire": WireRange(lowest=2, highest=3)})
    for _ in range(2):
        ready.give(inputs.CoordinatorBorn(making.LATER_COORDINATOR, newer))
    (told,) = ready.take(requests.Say)
    assert told.text.startswith("wire: this agent speaks version 1, its coordinator versions 2 to")
    births(ready)
    ready.wait(3600)
    assert not births(ready)
    assert ready.messages() == []
    (problem,) = [one for one in standing_problems(ready.state) if one.about == "wire"]
    assert problem.hinders
    assert "too old: install the coordinator's release" in problem.text
    ready.give(inputs.CoordinatorBorn(BootId.fresh(), making.born()))
    assert births(ready)
    assert "wire" not in {one.about for one in standing_problems(ready.state)}
