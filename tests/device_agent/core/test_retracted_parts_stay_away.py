"""A part that the operator retracts after its receipt is given no more; its images stay counted."""

import pytest

from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Problem
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

REASON = "retracted: a broken camera; its images are not to be given again"


@pytest.fixture
def given(ready: Driven) -> Driven:
    """An agent whose only part was accepted."""
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("payload")
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.messages()
    return ready


def retraction(part: int = 0) -> Receipt:
    key = making.part_key(1, part)
    receipt = making.refused("contribution", key, reason=REASON)
    answer = receipt.answer.model_copy(update={"retracted": True})
    changes = {"answer": answer, "payload": making.digest("payload")}
    return receipt.model_copy(update=changes)


def test_it_is_refused_for_the_owner_to_see_and_is_no_problem_of_the_device(given: Driven) -> None:
    given.receipt(retraction())
    (dead,) = given.store.dead_letters()
    assert (dead.about, dead.stage, dead.part, dead.reason) == ("contribution", 1, 0, REASON)
    assert given.sent(Problem) == [], "the operator did it, and the ledger says so"
    assert given.state.records.parts[making.part_key()].state == "refused"
    assert given.state.records.dead_letters == 1


def test_its_images_are_neither_computed_nor_given_again(given: Driven) -> None:
    given.receipt(retraction())
    given.scan()
    assert given.job() is None
    given.connect()  # the coordinator holds nothing of this device any more
    given.scan()
    given.wait(100)
    assert given.job() is None
    assert all(isinstance(body, Nothing) for body in given.messages())


def test_without_the_message_a_part_that_is_not_held_would_be_computed_anew(
    given: Driven,
) -> None:
    given.kill()
    given.connect()
    given.assign("cat", "dog", action=2)
    assert given.contents_of_job() == {"cat/a": "cat"}


def test_it_is_remembered_over_a_restart(given: Driven) -> None:
    given.receipt(retraction())
    before = given.state.records
    given.kill()
    assert given.state.records.parts == before.parts
    assert given.state.records.dead_letters == before.dead_letters
    given.connect()
    given.assign("cat", "dog", action=2)
    assert given.job() is None


def test_new_images_are_given_as_ever(given: Driven) -> None:
    given.receipt(retraction())
    given.put(a="cat/1", b="dog/2")
    given.scan()
    assert given.contents_of_job() == {"dog/b": "dog"}


def test_a_repeat_and_the_retraction_of_an_unknown_part_change_nothing(given: Driven) -> None:
    given.receipt(retraction())
    before = given.store.load()
    given.receipt(retraction())
    given.receipt(retraction(part=7))
    assert given.store.load() == before


def test_an_ordinary_refusal_of_an_accepted_part_changes_nothing(given: Driven) -> None:
    before = given.store.load()
    given.receipt(making.refused("contribution", making.part_key()))
    assert given.store.load() == before


def test_a_device_whose_only_part_was_retracted_has_nothing_for_its_stage(agent: Driven) -> None:
    agent.put(a="cat/1")
    agent.connect()
    agent.assign("cat", "dog")
    agent.compute("payload")
    agent.receipt(making.accepted("contribution", making.part_key()))
    agent.messages()
    agent.receipt(retraction())
    assert [body.stage for body in agent.messages() if isinstance(body, Nothing)] == [1]
