"""`settled` in the status: all that lies there was looked at, counted, measured and answered."""

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.program.status import is_settled
from tests.device_agent import making
from tests.device_agent.core.driving import Driven


def test_without_an_assignment_nothing_is_settled(agent: Driven) -> None:
    agent.connect()
    agent.scan()
    assert not is_settled(agent.state)


def test_an_agent_with_nothing_to_give_is_settled_when_that_is_answered(agent: Driven) -> None:
    agent.connect()
    agent.assign("cat")
    assert not is_settled(agent.state)
    agent.receipt_for_nothing()
    assert is_settled(agent.state)


def test_images_unsettle_it_until_their_part_is_in_the_ledger(ready: Driven) -> None:
    assert is_settled(ready.state)
    ready.put(a="cat/1")
    ready.scan()
    assert not is_settled(ready.state)
    ready.compute()
    assert not is_settled(ready.state)
    ready.receipt(making.accepted("contribution", making.part_key()))
    assert is_settled(ready.state)


def test_a_new_assignment_unsettles_it_until_it_has_looked_again(ready: Driven) -> None:
    ready.give(inputs.Assigned(making.COORDINATOR, making.assignment("cat", action=9)))
    assert not is_settled(ready.state)
    ready.scan()
    assert is_settled(ready.state)


def test_files_that_are_being_written_unsettle_it(ready: Driven) -> None:
    ready.wait(ready.rules.scan_seconds)
    ready.give(inputs.Scanned((), unsettled=2))
    assert not is_settled(ready.state)
    ready.scan()
    assert is_settled(ready.state)


def test_after_a_restart_it_looks_before_it_is_settled(ready: Driven) -> None:
    ready.kill()
    assert not is_settled(ready.state)
    ready.connect()
    ready.give(inputs.FetchFinished(making.assignment("cat", "dog").frozen.digest))
    ready.scan()
    assert is_settled(ready.state)


def test_where_a_network_is_trained_it_is_settled_between_rounds(agent: Driven) -> None:
    agent.connect()
    agent.put(one="cat/1", two="dog/2")
    agent.order()
    assert not is_settled(agent.state)
    agent.train()
    assert not is_settled(agent.state), "its answer has no receipt yet"
    agent.receipt(making.accepted("contribution", making.part_key(1, 1)))
    assert is_settled(agent.state)
    agent.order(2, action=2)
    assert not is_settled(agent.state)


def test_a_training_that_failed_and_will_be_tried_again_unsettles_it(agent: Driven) -> None:
    agent.connect()
    agent.put(one="cat/1", two="dog/2")
    agent.order()
    job = agent.state.training.job
    assert job is not None
    agent.give(inputs.TrainingFailed(job, "no memory"))
    assert not is_settled(agent.state)


def test_who_is_not_asked_to_train_is_settled_when_it_has_looked(agent: Driven) -> None:
    agent.connect()
    idle = making.training(making.round_order(1)).model_copy(update={"round": None})
    agent.give(inputs.Assigned(making.COORDINATOR, idle))
    agent.scan()
    assert is_settled(agent.state)
