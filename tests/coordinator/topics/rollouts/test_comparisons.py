"""A device's comparison counts once, for a candidate that it was offered, and gets a receipt."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.topics.models.commands import PinDevices
from fleetledger.coordinator.topics.rollouts.commands import EndRollout
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared
from fleetledger.schemas.receipts import ENTRY_OF, Accepted, Later, Refused
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import exported, receipt
from tests.coordinator.topics.rollouts.rollout_bench import RolloutBench

CAT = ClassName("cat")


def begun() -> tuple[RolloutBench, str, str]:
    """A rollout of model 2 to one of five devices; that one, and another one."""
    bench = RolloutBench()
    devices = bench.fleet(5, models=3)
    bench.begin_rollout(shadow="first")
    (member,) = bench.offered()
    return bench, member, next(device for device in devices if device != member)


def comparison(**changes: object) -> ModelComparison:
    values: dict[str, object] = {
        "number": 0,
        "rollout": 1,
        "group": 1,
        "mode": "shadow",
        "candidate": exported(2).manifest.digest,
        "candidate_version": 2,
        "active": exported(1).manifest.digest,
        "active_version": 1,
        "classes": {CAT: Pairs(both=9, only_active=1)},
    }
    return ModelComparison.model_validate(values | changes)


def compared(bench: RolloutBench) -> list[ModelComparison]:
    return [body.comparison for body, *_ in bench.entries if isinstance(body, ModelCompared)]


def refused(bench: RolloutBench, device: str, body: ModelComparison) -> str:
    answer = receipt(bench.message(device, body)).answer
    assert isinstance(answer, Refused)
    return answer.reason


def test_a_repeat_gets_the_same_receipt_and_no_second_entry() -> None:
    bench, member, _ = begun()
    first = receipt(bench.message(member, comparison()))
    assert receipt(bench.message(member, comparison())) == first
    assert (first.about, first.key.stage, first.key.part) == ("comparison", 1, 0)
    assert isinstance(first.answer, Accepted)
    assert compared(bench) == [comparison()]
    assert bench.entries[first.answer.ledger_index][0].kind == ENTRY_OF["comparison"]
    assert bench.rollout.evidence.entries == [first.answer.ledger_index]


def test_a_second_comparison_with_other_counts_is_refused_and_the_first_one_counts() -> None:
    bench, member, _ = begun()
    bench.message(member, comparison())
    for other in (
        comparison(classes={CAT: Pairs(only_candidate=300)}),
        comparison(number=1, classes={CAT: Pairs(only_candidate=300)}),
    ):
        assert "the first comparison counts" in refused(bench, member, other)
    assert compared(bench) == [comparison()]
    assert bench.rollout.evidence.known.better == 0


def test_a_device_of_no_opened_group_counts_for_nothing() -> None:
    bench, _, other = begun()
    assert "does not ask this device" in refused(bench, other, comparison())
    assert compared(bench) == []
    assert bench.rollout.evidence.entries == []


def test_what_stands_in_a_ledger_all_the_same_counts_for_nothing() -> None:
    bench, member, other = begun()
    for device, body in (
        (other, comparison()),
        (member, comparison(candidate=Digest.of(b"made up"))),
        (member, comparison(rollout=2)),
    ):
        bench.core.state.rollouts.compared.clear()
        bench.core.state.apply(ModelCompared(comparison=body), DeviceId(device), bench.now_ns)
    assert bench.rollout.evidence.entries == []
    assert not bench.rollout.members[DeviceId(member)].compared


def test_a_device_that_was_pinned_to_another_version_is_no_member() -> None:
    bench, member, _ = begun()
    bench.command(PinDevices(devices=(DeviceId(member),), version=1))
    assert "does not ask this device" in refused(bench, member, comparison())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rollout": 3}, "rollout: 3 is not open"),
        ({"group": 2}, "group: 2 of rollout 1 does not ask this device"),
        (
            {"candidate_version": 3, "candidate": exported(3).manifest.digest},
            "candidate_version: 3 is not what was offered",
        ),
        ({"candidate": Digest.of(b"another")}, "is not the manifest of model 2"),
        ({"active_version": 9}, "active_version: 9 is no model of this fleet"),
        ({"active": Digest.of(b"another")}, "is not the manifest of model 1"),
        (
            {"active_version": 2, "active": exported(2).manifest.digest},
            "active_version: 2 is the candidate itself",
        ),
        ({"classes": {"unheard-of": Pairs(both=3)}}, "classes: unheard-of; neither of the two"),
        (
            {"classes": {CAT: Pairs(neither=3)}, "new_classes": (CAT,)},
            "new_classes: are not the classes that the active model does not know",
        ),
    ],
)
def test_a_comparison_of_something_else_is_refused(changes: dict[str, object], said: str) -> None:
    bench, member, _ = begun()
    assert said in refused(bench, member, comparison(**changes))
    assert compared(bench) == []


def test_what_arrives_after_the_rollout_has_ended_is_refused() -> None:
    bench, member, _ = begun()
    bench.command(EndRollout(rollout=1))
    assert "rollout: 1 is not open" in refused(bench, member, comparison())


def test_a_device_that_is_not_admitted_is_put_off() -> None:
    bench, _, _ = begun()
    assert isinstance(receipt(bench.message("stranger", comparison())).answer, Later)
    assert compared(bench) == []
