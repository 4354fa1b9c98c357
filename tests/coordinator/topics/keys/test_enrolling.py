"""Who gets a key, and who no longer has one."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import (
    AnswerOperator,
    ForgetInvitation,
    Request,
    SendToDevice,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.coordinator.topics.keys.commands import InviteDevice, RevokeKey
from fleetledger.coordinator.topics.keys.entries import (
    DeviceEnrolled,
    DeviceInvited,
    DeviceKeyRevoked,
    DeviceKeyRotated,
)
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.enrolment import Enrolled, device_key_name
from fleetledger.schemas.keys import SigningKey, VerifyKey
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import FLEET, SECOND, Bench, names
from tests.coordinator.core.harness import contribution as made

DEVICE = DeviceId("dev-1")
NAME = device_key_name(FLEET, DEVICE)
KEY, OTHER = (SigningKey.fresh(NAME).verify_key for _ in range(2))
TOKEN, SECOND_TOKEN = Digest.of(b"token"), Digest.of(b"second token")
EXPIRES = 100 * SECOND


@pytest.fixture
def bench() -> Bench:
    return Bench()


def invite(bench: Bench, token: Digest = TOKEN) -> AnswerOperator:
    command = InviteDevice(device=DEVICE, invitation=token, expires_ns=EXPIRES)
    return bench.command(command)


def revoke(bench: Bench) -> AnswerOperator:
    return bench.command(RevokeKey(device=DEVICE, reason="stolen"))


def enrol(bench: Bench, key: VerifyKey = KEY, token: Digest | None = TOKEN) -> list[Request]:
    return bench.handle(inputs.EnrolmentProven(DEVICE, key, token))


def rotate(bench: Bench, key: VerifyKey, former: VerifyKey) -> list[Request]:
    return bench.handle(inputs.RotationProven(DEVICE, key, former))


def told(requests: list[Request]) -> list[str]:
    """Return what the device hears: the hash of the key that counts, or a problem."""
    bodies = [item.body for item in requests if isinstance(item, SendToDevice)]
    said = []
    for body in bodies:
        if isinstance(body, Enrolled):
            said.append(body.key.key_hash.hex())
        elif isinstance(body, Problem):
            said.append(body.text)
    return said


def kinds(bench: Bench) -> list[type]:
    return [type(body) for body, _, _ in bench.entries]


def enrolled(bench: Bench) -> VerifyKey | None:
    return bench.core.state.keys.of(DEVICE).key


def test_an_invited_device_enrols_its_key(bench: Bench) -> None:
    assert invite(bench).done
    requests = enrol(bench)
    assert enrolled(bench) == KEY
    assert told(requests) == [KEY.key_hash.hex()]
    assert ForgetInvitation(TOKEN) in requests
    assert [k for k in kinds(bench) if k.__name__.startswith("Device")] == [
        DeviceAdmitted,
        DeviceInvited,
        DeviceEnrolled,
    ]
    body, device, _ = bench.entries[-1]
    assert body == DeviceEnrolled(device=DEVICE, key=KEY, invitation=TOKEN)
    assert device == DEVICE


def test_a_device_that_did_not_hear_the_answer_gets_it_again(bench: Bench) -> None:
    invite(bench)
    enrol(bench)
    count = len(bench.entries)
    assert told(enrol(bench, token=None)) == [KEY.key_hash.hex()]
    assert told(enrol(bench)) == [KEY.key_hash.hex()]
    assert len(bench.entries) == count


def test_a_token_works_once(bench: Bench) -> None:
    invite(bench)
    enrol(bench)
    (text,) = told(enrol(bench, OTHER))
    assert text == (
        "enrolment: the token was used, replaced or taken back; ask for a new one: "
        "`fleetledger coordinator enrol dev-1`"
    )
    assert enrolled(bench) == KEY


def test_a_token_expires_by_the_coordinators_clock(bench: Bench) -> None:
    invite(bench)
    bench.now_ns = EXPIRES
    assert "the token has expired" in told(enrol(bench))[0]
    bench.now_ns = EXPIRES - 1
    enrol(bench)
    assert enrolled(bench) == KEY


def test_a_newer_token_replaces_the_one_before(bench: Bench) -> None:
    invite(bench)
    bench.handle(
        inputs.OperatorCommand(
            "again", InviteDevice(device=DEVICE, invitation=SECOND_TOKEN, expires_ns=EXPIRES)
        )
    )
    assert "replaced" in told(enrol(bench))[0]
    enrol(bench, token=SECOND_TOKEN)
    assert enrolled(bench) == KEY


def test_the_secret_of_a_replaced_token_is_forgotten(bench: Bench) -> None:
    invite(bench)
    command = InviteDevice(device=DEVICE, invitation=SECOND_TOKEN, expires_ns=EXPIRES)
    assert ForgetInvitation(TOKEN) in bench.handle(inputs.OperatorCommand("again", command))


def test_a_device_with_a_key_gets_no_token(bench: Bench) -> None:
    invite(bench)
    enrol(bench)
    answer = invite(bench, SECOND_TOKEN)
    assert not answer.done
    assert "`fleetledger agent rotate-key`" in answer.text
    assert "`fleetledger coordinator revoke dev-1`" in answer.text


def test_a_key_follows_the_one_that_counts_and_gets_its_answer_again(bench: Bench) -> None:
    invite(bench)
    enrol(bench)
    assert told(rotate(bench, OTHER, KEY)) == [OTHER.key_hash.hex()]
    assert enrolled(bench) == OTHER
    assert bench.entries[-1][0] == DeviceKeyRotated(device=DEVICE, key=OTHER, former=KEY)
    count = len(bench.entries)
    assert told(rotate(bench, OTHER, OTHER)) == [OTHER.key_hash.hex()]
    third = SigningKey.fresh(NAME).verify_key
    assert "counts no more" in told(rotate(bench, third, KEY))[0]
    assert len(bench.entries) == count


def test_a_revoked_device_comes_back_by_a_new_token_alone(bench: Bench) -> None:
    invite(bench)
    enrol(bench)
    assert revoke(bench).text == (
        "device dev-1 is shut out; `fleetledger coordinator enrol dev-1` is the way back"
    )
    keys = bench.core.state.keys.of(DEVICE)
    assert (keys.key, keys.revoked) == (None, True)
    assert enrol(bench) != []
    assert bench.core.state.keys.of(DEVICE).revoked
    assert "counts no more" in told(rotate(bench, OTHER, KEY))[0]
    assert invite(bench, SECOND_TOKEN).done
    assert bench.core.state.keys.of(DEVICE).revoked, "until it has enrolled"
    enrol(bench, OTHER, SECOND_TOKEN)
    keys = bench.core.state.keys.of(DEVICE)
    assert (keys.key, keys.revoked) == (OTHER, False)


def test_a_token_can_be_taken_back(bench: Bench) -> None:
    invite(bench)
    assert revoke(bench).done
    assert DeviceKeyRevoked(device=DEVICE, key=None, reason="stolen") in [
        body for body, _, _ in bench.entries
    ]
    assert "taken back" in told(enrol(bench))[0]


def test_who_has_neither_key_nor_token_is_shut_out_as_well(bench: Bench) -> None:
    bench.command(AdmitDevice(device=DEVICE))
    assert revoke(bench).done
    assert bench.core.state.keys.of(DEVICE).revoked


@pytest.mark.parametrize("name", ["coordinator", "proxy"])
def test_a_name_of_the_house_is_not_invited(bench: Bench, name: str) -> None:
    command = InviteDevice(device=DeviceId(name), invitation=TOKEN, expires_ns=EXPIRES)
    answer = bench.command(command)
    assert not answer.done
    assert "own name; rename the device" in answer.text


def test_nobody_waits_for_a_revoked_device(bench: Bench) -> None:
    bench.begin("dev-1", "dev-2")
    assert bench.core.stages.answered_and_expected(1) == (0, 2)
    invite(bench)
    enrol(bench)
    revoke(bench)
    assert bench.core.stages.answered_and_expected(1) == (0, 1)
    assert bench.core.live.device(DEVICE).boot is None


def test_a_payload_that_comes_after_the_revocation_is_left_out(bench: Bench) -> None:
    bench.begin("dev-1", classes=("cat",))
    invite(bench)
    enrol(bench)
    body = made("payload")
    bench.message("dev-1", body)
    revoke(bench)
    count = len(bench.entries)
    bench.handle(inputs.PayloadOutcome(DEVICE, body))
    assert len(bench.entries) == count
    bench.command(OpenStage(class_names=names("dog")))


def test_runs_of_a_device_with_a_key_are_remembered_when_they_end(bench: Bench) -> None:
    invite(bench)
    bench.born("dev-1")
    unsigned = bench.senders[DEVICE].boot
    enrol(bench)
    assert bench.core.state.keys.of(DEVICE).former_boots == set()
    for _ in range(2):
        bench.born("dev-1")
    former = bench.core.state.keys.of(DEVICE).former_boots
    assert len(former) == 2
    assert unsigned in former
    assert bench.senders[DEVICE].boot not in former


def test_forgeries_are_told_now_and_then(bench: Bench) -> None:
    bench.begin("dev-1")
    said = [bench.handle(inputs.MessageRefused(DEVICE, f"forgery {n}")) for n in range(50)]
    assert sum(map(len, said)) == 6
    assert bench.core.live.device(DEVICE).refusals_ns == (), "the device's own are not used up"
    bench.now_ns += 61 * SECOND
    assert told(bench.handle(inputs.MessageRefused(DEVICE, "again"))) == ["again"]
