"""`agent resubmit`: what was refused is counted again, once, and what was retracted is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.home.home import AgentHome, lock_home
from fleetledger.schemas.contributions import Contribution, PartKey, Withdrawal
from fleetledger.schemas.receipts import RETRACTED, Receipt, Refused
from tests.device_agent import making
from tests.device_agent.core.driving import Driven
from tests.device_agent.scripted import write_settings

KEY = PartKey(stage=1, part=0)


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    home = write_settings(tmp_path)
    home.state_folder.mkdir()
    return home


def refused(home: AgentHome, reason: str = "another one came first") -> Driven:
    """An agent whose two images were refused, and that was stopped."""
    agent = Driven(home.state_folder / "agent.db")
    agent.connect()
    agent.put(a="cat/1", b="cat/2")
    agent.assign("cat")
    agent.compute()
    answer = Refused(reason=reason)
    receipt = Receipt(about="contribution", key=KEY, revision=0, answer=answer)
    agent.give(inputs.ReceiptArrived(receipt))
    agent.receipt_for_nothing()
    assert agent.state.records.outbox == {}
    agent.store.close()
    return agent


def run(home: AgentHome) -> str:
    result = CliRunner().invoke(app, ["resubmit", "--home", str(home.folder)])
    assert result.exit_code == 0, result.output
    return result.output


def messages(agent: Driven) -> list[Contribution | Withdrawal]:
    return [item.body for item in agent.state.records.outbox.values()]


def test_images_of_a_refused_part_are_given_again_under_another_number(home: AgentHome) -> None:
    agent = refused(home)
    assert "2 images of 1 refused part are counted" in run(home)
    assert "nothing was refused here" in run(home), "once is enough"
    agent.start()
    agent.connect(next_part=1)
    agent.assign("cat", action=2)
    agent.compute()
    (message,) = messages(agent)
    assert isinstance(message, Contribution)
    assert (message.key.part, sum(message.samples.values())) == (1, 2)


def test_what_is_held_under_the_refused_number_is_taken_out_first(home: AgentHome) -> None:
    agent = refused(home)
    run(home)
    agent.start()
    agent.connect(making.held(0, 4, "of the copy"), next_part=1)
    agent.assign("cat", action=2)
    agent.compute()
    sent = [item.body for item in agent.requests if isinstance(item, requests.SendOutboxMessage)]
    assert isinstance(sent[-1], Withdrawal)
    assert (sent[-1].key, sent[-1].revision) == (KEY, 5)
    assert {type(message) for message in messages(agent)} == {Contribution, Withdrawal}


def test_what_the_operator_retracted_stays_away(home: AgentHome) -> None:
    refused(home, reason=f"{RETRACTED}the operator took it out")
    assert "1 that the operator retracted stay away" in run(home)


def test_a_store_says_the_same_before_and_after_it_is_opened_again(home: AgentHome) -> None:
    agent = refused(home)
    run(home)
    agent.start()
    part = agent.state.records.parts[KEY]
    assert (part.state, part.payload) == ("withdrawn", None)
    assert not any(agent.state.records.counted.values())


def test_it_is_refused_while_an_agent_runs(home: AgentHome) -> None:
    lock = lock_home(home.folder)
    try:
        result = CliRunner().invoke(app, ["resubmit", "--home", str(home.folder)])
        assert "another agent runs here" in str(result.exception)
    finally:
        os.close(lock)
