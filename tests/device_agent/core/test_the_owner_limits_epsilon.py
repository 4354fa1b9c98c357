"""What would spend more privacy than owner or fleet allow is not made, and the device says why."""

from __future__ import annotations

import pytest

from fleetledger.device_agent.core import inputs, policy
from fleetledger.device_agent.core.policy import beyond_limit, overspends
from fleetledger.device_agent.core.records import GivenPart
from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.program.status import describe_policy
from fleetledger.device_agent.settings import AgentPrivacySettings
from fleetledger.learning.privacy.accounting import Spending, multiplier_for
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey
from fleetledger.schemas.privacy import Masks, Noise, Privacy
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

NOISE = Noise(protects="image", epsilon=3, delta=1e-5, multiplier=multiplier_for(3, 1e-5))


def asked(noise: Noise | None = NOISE):
    told = making.assignment("cat", "dog")
    return told.model_copy(update={"privacy": noise and Privacy(noise=noise)})


def owned(**limits: float) -> AgentRules:
    return AgentRules(privacy=AgentPrivacySettings(**limits))


@pytest.fixture(autouse=True)
def has_opendp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "find_spec", lambda name: name)


def test_a_device_without_a_limit_takes_part_with_noise_and_without() -> None:
    assert beyond_limit(owned(), asked()) == beyond_limit(owned(), asked(None)) == ""


def test_a_fleet_that_would_spend_more_than_the_owner_allows_gets_nothing() -> None:
    assert beyond_limit(owned(max_epsilon=3), asked()) == ""
    text = beyond_limit(owned(max_epsilon=2), asked())
    assert text.startswith("privacy.max_epsilon = 2 at max_delta = 1e-05: the fleet would spend ")
    assert "epsilon 3 at delta 1e-05" in text
    assert "agent.toml" in text
    assert "max_delta = 1e-06" in beyond_limit(owned(max_epsilon=9, max_delta=1e-6), asked())


def test_a_fleet_without_noise_gets_nothing_from_a_device_with_a_limit() -> None:
    assert "asks for none" in beyond_limit(owned(max_epsilon=9), asked(None))


def test_a_device_without_the_library_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(policy, "find_spec", lambda name: None)
    assert "pip install 'fleetledger[privacy]'" in beyond_limit(owned(), asked())
    assert beyond_limit(owned(), asked(None)) == ""


def test_shared_noise_needs_masks_and_enough_members() -> None:
    shared = asked(NOISE.model_copy(update={"sharers": 4}))
    assert "only 1 member for sure" in beyond_limit(owned(), shared)
    for least, enough in ((8, True), (4, False)):
        masks = Masks(least=least, most=16)
        told = shared.model_copy(
            update={"privacy": Privacy(masks=masks, noise=shared.privacy.noise)}
        )
        assert (beyond_limit(owned(), told) == "") == enough


def assign(agent: Driven, noise: Noise | None = NOISE) -> None:
    agent.put(one="cat/1", two="dog/2")
    agent.connect()
    agent.give(inputs.Assigned(making.COORDINATOR, asked(noise)))
    agent.give(inputs.FetchFinished(making.digest("frozen")))
    agent.scan()


def test_the_stage_is_told_why_nothing_comes(agent: Driven) -> None:
    agent.rules = owned(max_epsilon=1)
    agent.kill()
    assign(agent)
    (said,) = agent.messages()
    assert isinstance(said, Nothing)
    assert said.reason.startswith("privacy.max_epsilon = 1 at max_delta")
    assert describe_policy(agent.state) == said.reason


def test_images_that_were_given_are_not_given_again_under_another_class(agent: Driven) -> None:
    assign(agent)
    job = agent.job()
    assert job is not None
    body = Contribution(
        key=job.key,
        revision=0,
        payload_kind="statistics",
        method=job.method,
        lineage=job.lineage,
        payload=making.digest("payload"),
        payload_bytes=7,
        samples={image.class_name: 1 for image in agent.state.work.images},
    )
    used = frozenset(image.digest for image in agent.state.work.images)
    agent.give(inputs.PartComputed(job, body, used, attached=b"payload"))
    agent.put(one="dog/1", two="dog/2")
    agent.scan()
    assert agent.job() is None
    texts = [one.text for one in standing_problems(agent.state)]
    assert any("another part would spend epsilon" in text for text in texts), texts
    agent.put(three="dog/3")
    agent.scan()
    job = agent.job()
    assert job is not None, "other images have a budget of their own"
    assert (job.key.part, job.revision) == (1, 0)


def part(revision: int, state: str = "accepted") -> GivenPart:
    return GivenPart(revision, state, making.digest("frozen"), making.digest("payload"))


def key(number: int) -> PartKey:
    return PartKey(stage=1, part=number)


def test_other_images_have_a_budget_of_their_own_and_revisions_have_not() -> None:
    given = {key(0): part(0), key(1): part(0)}
    assert overspends(asked(), given, key(2)) == ""
    assert "epsilon" in overspends(asked(), given, key(1))
    assert "epsilon" in overspends(asked(), {key(0): part(1, "withdrawn")}, key(1))


def test_every_part_of_a_protected_device_spends() -> None:
    multiplier = multiplier_for(3, 1e-5, Spending(1.0, times=2))
    noise = NOISE.model_copy(update={"protects": "device", "multiplier": multiplier})
    assert overspends(asked(noise), {}, key(0)) == ""
    assert overspends(asked(noise), {key(0): part(0)}, key(1)) == ""
    assert "gives nothing more" in overspends(
        asked(noise), {key(0): part(0), key(1): part(0)}, key(2)
    )
