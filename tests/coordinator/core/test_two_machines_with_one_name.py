"""One device id on two machines: both are named to the operator, and nothing counts twice."""

from coordinator.core.entries import DeviceBorn, DeviceProblem
from schemas.envelope import Sender
from schemas.presence import Birth
from schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import CAPABLE, FLEET, Bench

ONE, OTHER = BootId("1" * 16), BootId("2" * 16)


def born(bench: Bench, installation: BootId) -> None:
    camera = DeviceId("camera-1")
    bench.senders[camera] = Sender(FLEET, camera, BootId.fresh())
    bench.message(camera, Birth(installation=installation, capabilities=CAPABLE))


def problems(bench: Bench) -> list[DeviceProblem]:
    return [body for body, _, _ in bench.entries if isinstance(body, DeviceProblem)]


def test_two_installations_that_take_turns_are_named_once() -> None:
    bench = Bench()
    bench.begin("camera-1")
    for number in range(12):
        born(bench, (ONE, OTHER)[number % 2])
    (problem,) = problems(bench)
    assert problem.about == "identity"
    assert ONE in problem.text
    assert OTHER in problem.text


def test_a_reinstallation_is_no_second_machine() -> None:
    bench = Bench()
    bench.begin("camera-1")
    for installation in (ONE, ONE, OTHER, OTHER, OTHER):
        born(bench, installation)
    assert problems(bench) == []


def test_a_birth_that_was_late_is_no_second_machine() -> None:
    bench = Bench()
    bench.begin("camera-1")
    for installation in (ONE, OTHER, ONE, OTHER, OTHER, OTHER):
        born(bench, installation)
    assert problems(bench) == []
    assert sum(isinstance(body, DeviceBorn) for body, _, _ in bench.entries) == 7
