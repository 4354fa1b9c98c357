"""Phases that ask for images themselves: declined, or told in words before anybody asks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs, policy, requests
from fleetledger.device_agent.core.policy import images_asked, may_send, refusal
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.program.status import describe_policy
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.rounds import RoundAnswer
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

FORBIDDEN, ALLOWED = AgentRules(), AgentRules(policy=PolicySettings(publish_images=True))
PHASES = ("share", "train", "distil")


@pytest.fixture(autouse=True)
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the method that is assigned have a phase that asks for images."""
    known = replace(
        descriptor("rounds"),
        payload_kinds=("weights", "logits", "images"),
        kinds_of_phases={"share": "images", "train": "logits"},
    )
    monkeypatch.setattr(policy, "descriptor", lambda _: known)


@pytest.fixture(params=[False, True], ids=["forbidden", "allowed"])
def device(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Driven, bool]]:
    agent = Driven(tmp_path / "agent.db", policy=PolicySettings(publish_images=request.param))
    agent.put(one="cat/1", two="dog/2")
    agent.connect()
    yield agent, request.param
    agent.store.close()


def begin(agent: Driven, **order: object) -> None:
    """Give an assignment of the method, with an order or without."""
    asked = making.round_order(**order) if order else None  # type: ignore[arg-type]
    action = asked.number + 1 if asked else 1
    given = making.training(asked, action).model_copy(update={"phases": PHASES})
    agent.give(inputs.Assigned(making.COORDINATOR, given))
    if asked is not None:
        for offer in (asked.weights, *asked.extras.values()):
            agent.give(inputs.FetchFinished(offer.digest))
    agent.scan()


def said(agent: Driven) -> list[str]:
    return [request.text for request in agent.take(requests.Say)]


def test_what_becomes_of_images_is_said_with_the_first_assignment(
    device: tuple[Driven, bool],
) -> None:
    agent, allowed = device
    begin(agent)
    (words,) = said(agent)
    setting = "true" if allowed else "false"
    assert words.startswith(f"policy.publish_images = {setting}: ")
    assert "'share'" in words
    assert describe_policy(agent.state) == words
    begin(agent, number=1, phase="share")
    begin(agent, number=2, phase="train")
    assert said(agent) == [], "once in a run"


def test_an_order_for_images_is_declined_with_the_way_out(device: tuple[Driven, bool]) -> None:
    agent, allowed = device
    begin(agent, number=3, phase="share")
    messages = agent.messages()
    if allowed:
        assert messages == []
        assert agent.take(requests.Train)
        return
    (declined,) = messages
    assert isinstance(declined, Nothing)
    assert (declined.round, declined.reason) == (3, refusal(FORBIDDEN, "rounds", "share"))
    assert "agent.toml" in declined.reason
    assert "shared_set = 'public'" in declined.reason
    assert agent.take(requests.Train) == []


def test_a_device_that_shares_none_trains_like_any_other(device: tuple[Driven, bool]) -> None:
    agent, _ = device
    begin(agent, number=3, phase="train")
    assert agent.take(requests.Train)
    assert refusal(agent.rules, "rounds", "train") == refusal(agent.rules, "rounds", "distil") == ""


def test_images_that_wait_when_their_owner_forbids_them_stay_unsent(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "agent.db", policy=PolicySettings(publish_images=True))
    agent.put(one="cat/1")
    agent.connect()
    begin(agent, number=1, phase="share")
    answer = RoundAnswer(number=1, phase="share", samples=3, steps=1, seconds=0)
    agent.train("images", payload_kind="images", answer=answer)
    assert {type(body) for body in agent.messages()} == {Contribution}
    for allowed, kinds in ((False, set()), (True, {"images"})):
        agent.rules = AgentRules(policy=PolicySettings(publish_images=allowed))
        agent.kill()
        agent.connect()
        agent.wait(100.0)
        sent = {body.payload_kind for body in agent.messages() if isinstance(body, Contribution)}
        assert sent == kinds


def test_other_kinds_are_nobodys_secret() -> None:
    body = Contribution(
        key=making.part_key(),
        revision=0,
        payload_kind="images",
        method="stsa",
        lineage=making.digest("frozen"),
        payload=making.digest("payload"),
        payload_bytes=7,
        samples={"cat": 1},
    )
    assert (may_send(FORBIDDEN, body), may_send(ALLOWED, body)) == (False, True)
    assert may_send(FORBIDDEN, body.model_copy(update={"payload_kind": "logits"}))


def test_where_no_phase_asks_for_images_nothing_is_said(agent: Driven) -> None:
    agent.connect()
    begin(agent)
    told = agent.state.records.assignment
    assert told is not None
    assert images_asked(FORBIDDEN, told.model_copy(update={"phases": ("train",)})) == ""


def test_words_fit_into_an_answer() -> None:
    assert len(refusal(FORBIDDEN, "m" * 40, "share")) <= 500


def test_a_device_killed_between_phases_goes_on_with_what_it_remembers(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "agent.db")
    agent.put(one="cat/1")
    agent.connect()
    begin(agent, number=1, phase="train")
    answer = RoundAnswer(number=1, phase="train", samples=3, steps=1, seconds=0)
    agent.train("logits", memory="theta 0 of round 1", answer=answer, payload_kind="logits")
    agent.kill()
    agent.connect()
    agent.disk.clear()  # a later phase needs no image of the folder
    begin(agent, number=2, phase="distil", follows=1)
    *_, work = agent.take(requests.Train)
    assert (work.job.phase, work.memory) == ("distil", making.digest("theta 0 of round 1"))
    assert work.images == ()


def test_without_memory_and_images_a_later_phase_has_nothing_to_go_on_from(agent: Driven) -> None:
    agent.connect()
    begin(agent, number=2, phase="distil", follows=1)
    (nothing,) = agent.messages()
    assert isinstance(nothing, Nothing)
    assert nothing.reason == "memory: nothing of round 1 is left here to go on from"


def test_a_method_that_finds_nothing_of_its_own_round_says_the_same(agent: Driven) -> None:
    agent.put(one="cat/1")
    agent.connect()
    begin(agent, number=2, phase="distil", follows=1)
    job = agent.state.training.job
    assert job is not None
    agent.give(inputs.NothingToTrain(job, ()))
    (nothing,) = agent.messages()
    assert isinstance(nothing, Nothing)
    assert "nothing of round 1" in nothing.reason
