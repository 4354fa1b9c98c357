"""A token is used once, whenever the coordinator is killed: before the commit or after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.inputs import EnrolmentProven, MessageRefused, OperatorCommand
from fleetledger.coordinator.core.requests import ForgetInvitation, Request, SendToDevice
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.errors import LedgerWriteError
from fleetledger.coordinator.program.authenticator import Authenticator
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.keys.commands import RevokeKey
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.schemas.enrolment import Enrolled, Enrolment, device_key_name, enrolment_mac
from fleetledger.schemas.envelope import Sender, encode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.token import Token
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId

FLEET, CRANE = FleetId("harbour"), DeviceId("crane-7")
TOPIC = FleetTopics(FLEET).up(CRANE, "msg")
KEY, OTHER = (SigningKey.fresh(device_key_name(FLEET, CRANE)) for _ in range(2))


class Running:
    """A coordinator from its start to its end, without a connection."""

    def __init__(self, home: Path) -> None:
        self.engine = LedgerEngine.open(home, Rules())
        self.authenticator = Authenticator(
            FleetTopics(FLEET), lambda: self.engine.core.state, Invitations(home).secret
        )

    def hear(self, token: Token, key: SigningKey = KEY) -> list[Request]:
        """Take an enrolment in; the requests are those that a kill keeps from being done."""
        taken = self.authenticator.authenticate(TOPIC, asking(token, key))
        assert taken is not None
        return self.engine.process([taken])

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.engine.ledger.entries()]

    def restart(self, home: Path) -> Running:
        self.engine.close()
        return Running(home)


def asking(token: Token, key: SigningKey) -> bytes:
    mac = enrolment_mac(token.secret_bytes, FLEET, CRANE, key.verify_key)
    sender = Sender(FLEET, CRANE, BootId.fresh(), signer=key)
    return encode(sender.seal(Enrolment(key=key.verify_key, mac=mac), sent_ms=0, topic=TOPIC))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_new(tmp_path, CoordinatorSettings(fleet=FLEET))
    return tmp_path


def answers(requests: list[Request]) -> list[Enrolled]:
    bodies = [item.body for item in requests if isinstance(item, SendToDevice)]
    return [body for body in bodies if isinstance(body, Enrolled)]


def test_a_token_is_not_used_up_by_what_was_not_committed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = invite(home, CRANE, hours=1).token
    running = Running(home)

    def fail(*_: object) -> None:
        raise LedgerWriteError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(running.engine.ledger, "append", fail)
        with pytest.raises(LedgerWriteError):
            running.hear(token)
    assert running.engine.waits, "who is committed later is answered later"
    assert "device.enrolled" not in running.kinds()
    running = running.restart(home)
    assert running.engine.core.state.keys.of(CRANE).key is None
    assert answers(running.hear(token)) == [Enrolled(key=KEY.verify_key)]
    assert running.kinds().count("device.enrolled") == 1
    running.engine.close()


def test_who_was_committed_and_not_answered_is_answered_later(home: Path) -> None:
    token = invite(home, CRANE, hours=1).token
    running = Running(home)
    assert ForgetInvitation(token.invitation) in running.hear(token)
    running = running.restart(home)
    assert Invitations(home).secret(token.invitation), "the kill kept it from being deleted"
    assert answers(running.hear(token)) == [Enrolled(key=KEY.verify_key)]
    assert running.kinds().count("device.enrolled") == 1
    taken = running.authenticator.authenticate(TOPIC, asking(token, OTHER))
    assert isinstance(taken, MessageRefused), "what is left of the secret is worth nothing"
    assert "no token is open for 'crane-7'" in taken.reason
    running.engine.close()


def test_two_keys_in_one_group_are_one_enrolment(home: Path) -> None:
    token = invite(home, CRANE, hours=1).token
    running = Running(home)
    taken = [
        running.authenticator.authenticate(TOPIC, asking(token, key)) for key in (KEY, OTHER, KEY)
    ]
    assert all(isinstance(item, EnrolmentProven) for item in taken)
    said = answers(running.engine.process([item for item in taken if item is not None]))
    assert [item.key for item in said] == [KEY.verify_key, KEY.verify_key]
    assert running.kinds().count("device.enrolled") == 1
    running.engine.close()


def test_a_revocation_stays_over_a_restart(home: Path) -> None:
    token = invite(home, CRANE, hours=1).token
    running = Running(home)
    running.hear(token)
    revoke = RevokeKey(device=CRANE, reason="stolen")
    running.engine.process([OperatorCommand("ticket", revoke)])
    running = running.restart(home)
    assert isinstance(running.authenticator.authenticate(TOPIC, asking(token, KEY)), MessageRefused)
    again = invite_beside(running, home)
    assert answers(running.hear(again, OTHER)) == [Enrolled(key=OTHER.verify_key)]
    assert isinstance(running.authenticator.authenticate(TOPIC, asking(again, KEY)), MessageRefused)
    running.engine.close()


def invite_beside(running: Running, home: Path) -> Token:
    """Make a token while no coordinator runs, as the command does."""
    running.engine.close()
    token = invite(home, CRANE, hours=1).token
    running.engine = LedgerEngine.open(home, Rules())
    return token
