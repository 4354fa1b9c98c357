"""A method that has features sent gets none from a device whose owner forbids it, and no wait."""

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs, policy, requests
from fleetledger.device_agent.core.policy import may_send, refusal
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.program.status import describe_policy, is_settled
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.contributions import Contribution, HeldPart, Nothing, Withdrawal
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

FORBIDDEN, ALLOWED = AgentRules(), AgentRules(policy=PolicySettings(publish_features=True))


@pytest.fixture
def ready(agent: Driven) -> Driven:
    """An agent that is connected and assigned, with two images, and forbids features."""
    agent.put(one="cat/1", two="dog/2")
    agent.connect()
    assign(agent, "cat", "dog")
    return agent


def assign(agent: Driven, *names: str, **details: int) -> None:
    """Give an assignment of the method whose payload is features."""
    asked = making.assignment(*names, **details).model_copy(update={"method": "pooled"})
    agent.give(inputs.Assigned(making.COORDINATOR, asked))
    agent.give(inputs.FetchFinished(making.digest("frozen")))
    agent.scan()


def allow(agent: Driven, *, publish: bool) -> None:
    """Change the owner's mind, and start the agent again."""
    agent.rules = AgentRules(policy=PolicySettings(publish_features=publish))
    agent.kill()
    agent.connect()
    agent.give(inputs.FetchFinished(making.digest("frozen")))
    agent.scan()


def compute(agent: Driven) -> None:
    job = agent.job()
    assert job is not None
    contribution = Contribution(
        key=job.key,
        revision=job.revision,
        payload_kind="features",
        method=job.method,
        lineage=job.lineage,
        payload=making.digest("payload"),
        payload_bytes=7,
        samples={image.class_name: 1 for image in agent.state.work.images},
    )
    used = frozenset(image.digest for image in agent.state.work.images)
    agent.give(inputs.PartComputed(job, contribution, used, attached=b"payload"))


def test_the_stage_is_told_once_that_nothing_comes_and_why(ready: Driven) -> None:
    (said,) = ready.messages()
    assert isinstance(said, Nothing)
    assert said.stage == 1
    assert said.reason.startswith(
        "policy.publish_features = false: this device does not publish features; "
    )
    assert "'pooled'" in said.reason
    ready.receipt_for_nothing()
    ready.scan()
    ready.wait(100.0)
    assert ready.messages() == []
    assert ready.take(requests.ComputePart) == []
    assert is_settled(ready.state)
    assert describe_policy(ready.state) == said.reason


def test_it_is_said_before_the_folder_was_looked_at_or_a_file_came(agent: Driven) -> None:
    agent.connect()
    asked = making.assignment("cat").model_copy(update={"method": "pooled"})
    agent.give(inputs.Assigned(making.COORDINATOR, asked))
    (said,) = agent.messages()
    assert isinstance(said, Nothing)


def test_the_next_stage_is_told_again(ready: Driven) -> None:
    ready.messages()
    assign(ready, "cat", "dog", "owl", action=2, stage=2)
    assert [body.stage for body in ready.messages() if isinstance(body, Nothing)] == [2]


def test_a_device_whose_owner_allows_it_and_starts_it_again_takes_part(ready: Driven) -> None:
    ready.messages()
    ready.receipt_for_nothing()
    allow(ready, publish=True)
    assert describe_policy(ready.state) == ""
    compute(ready)
    (sent,) = ready.messages()
    assert isinstance(sent, Contribution)


def test_what_was_computed_before_it_was_forbidden_waits_unsent(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "agent.db", policy=PolicySettings(publish_features=True))
    agent.put(one="cat/1")
    agent.connect()
    assign(agent, "cat")
    compute(agent)
    agent.messages()
    allow(agent, publish=False)
    agent.wait(100.0)
    assert {type(body) for body in agent.messages()} == {Nothing}
    allow(agent, publish=True)
    assert Contribution in {type(body) for body in agent.messages()}


def test_an_order_of_a_round_is_declined_with_the_reason(
    agent: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "descriptor", lambda name: descriptor("pooled"))
    agent.connect()
    agent.put(one="cat/1", two="dog/2")
    agent.order(3)
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert (said.round, said.reason) == (3, refusal(FORBIDDEN, "rounds"))
    assert agent.take(requests.Train) == []


def test_other_payloads_are_nobodys_secret() -> None:
    for method in ("stsa", "rounds", "a method that is not known here"):
        assert refusal(FORBIDDEN, method) == ""


def test_only_features_are_held_back() -> None:
    body = Contribution(
        key=making.part_key(),
        revision=0,
        payload_kind="features",
        method="stsa",
        lineage=making.digest("frozen"),
        payload=making.digest("payload"),
        payload_bytes=7,
        samples={"cat": 1},
    )
    assert not may_send(FORBIDDEN, body)
    assert may_send(ALLOWED, body)
    assert may_send(FORBIDDEN, body.model_copy(update={"payload_kind": "statistics"}))


def test_a_new_installation_withdraws_what_was_given_and_gives_nothing_anew(agent: Driven) -> None:
    """The way to take back what was given: docs/agent.md sends owners here."""
    agent.put(one="cat/1", two="dog/2")
    given = HeldPart(key=making.part_key(), revision=3, payload=making.digest("given before"))
    agent.connect(given)
    assign(agent, "cat", "dog")
    (withdrawn,) = agent.sent(Withdrawal)
    assert isinstance(withdrawn, Withdrawal)
    assert (withdrawn.key, withdrawn.revision) == (given.key, 4)
    agent.receipt(making.accepted("withdrawal", given.key, revision=4))
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert agent.take(requests.ComputePart) == []
