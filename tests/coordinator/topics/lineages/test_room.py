"""Assignments stay below the size of a message, however many classes a fleet names."""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.coordinator.core.assignments import assignment_for
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone, ImportNetwork
from fleetledger.coordinator.topics.lineages.entries import FrozenBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import MAX_HEADER_BYTES, Sender, encode
from fleetledger.schemas.values import BootId, ClassName, DeviceId
from tests.coordinator.core.harness import BACKBONE, FLEET, offer
from tests.coordinator.core.round_bench import NETWORK, RoundBench

ON_FEATURES = NETWORK.model_copy(
    update={"backbone": FrozenBackbone(name="b", frozen=offer("backbone"), feature_width=64)}
)


def header(bench: RoundBench) -> int:
    """The bytes of the largest assignment of a device that is asked in a round."""
    body = assignment_for(bench.core.state, DeviceId("dev-1"))
    assert body is not None
    assert body.round is not None
    sender = Sender(FLEET, DeviceId("coordinator"), BootId.fresh())
    return len(encode(sender.seal(body, sent_ms=0)))


def chunk(start: int, count: int, text: str = "a class of things") -> tuple[ClassName, ...]:
    return tuple(ClassName(f"{text} {number:06d}") for number in range(start, start + count))


def open_stage(bench: RoundBench, class_names: Sequence[ClassName]) -> tuple[bool, str]:
    answer = bench.command(OpenStage(class_names=tuple(class_names)))
    return answer.done, answer.text


def learn_a_round(bench: RoundBench) -> None:
    """Let the next round give weights that have a row for every class, and another one open."""
    while (current := bench.core.state.rounds.current) is None or current.closed is not None:
        bench.wait(0)
    stage, number = current.opened.stage, current.opened.number
    for device in bench.devices:
        bench.answer(
            device, number, key=PartKey(stage=stage, part=number), lineage=ON_FEATURES.digest
        )
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)


def another_name(number: int) -> RenameClass:
    (old,) = chunk(number, 1)
    return RenameClass(old=old, new=ClassName(f"{old} {'so' * 35}"))


def test_a_network_takes_as_many_names_as_an_order_can_list() -> None:
    bench = RoundBench(per_stage=9)
    bench.lead(ON_FEATURES)
    start = 0
    while (answer := open_stage(bench, chunk(start, 400)))[0]:
        start += 400
        bench.wait(0)
        learn_a_round(bench)
        assert header(bench) <= MAX_HEADER_BYTES
    text = answer[1]
    assert "more than an assignment of this fleet holds" in text
    assert 0 < start < 40_000 / len(chunk(0, 1)[0])
    assert header(bench) > MAX_HEADER_BYTES // 2


def test_names_of_one_letter_are_counted_with_their_quotes() -> None:
    bench = RoundBench(per_stage=9)
    bench.lead(ON_FEATURES)
    letters = [ClassName(chr(0x4E00 + number)) for number in range(9000)]
    opened = 0
    while open_stage(bench, letters[opened : opened + 1000])[0]:
        opened += 1000
    assert 3000 <= opened < 9000
    bench.wait(0)
    learn_a_round(bench)
    assert header(bench) <= MAX_HEADER_BYTES


def test_other_names_need_room_too() -> None:
    bench = RoundBench(per_stage=9)
    bench.lead(ON_FEATURES)
    assert open_stage(bench, chunk(0, 1000))[0]
    bench.wait(0)
    learn_a_round(bench)
    renamed = 0
    while bench.command(another_name(renamed)).done:
        renamed += 1
    assert 0 < renamed < 200
    assert header(bench) <= MAX_HEADER_BYTES


def test_a_network_is_not_imported_over_more_names_than_it_can_list() -> None:

    bench = RoundBench()
    bench.lead(NETWORK)
    bench.command(ImportBackbone(backbone=BACKBONE))
    for start in range(0, 1500, 500):
        assert open_stage(bench, chunk(start, 500))[0]
    answer = bench.command(ImportNetwork(network=ON_FEATURES))
    assert not answer.done
    assert "fewer classes" in answer.text
