"""What older rounds gave is deleted, but nothing that a model or a device still needs."""

from __future__ import annotations

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.requests import PruneBlobs, Request
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import WeightsPruned
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.receipts import Refused
from fleetledger.schemas.values import Digest
from tests.coordinator.core.harness import exported, names, offer, receipt
from tests.coordinator.core.round_bench import NETWORK, RoundBench, averaged
from tests.coordinator.topics.proxy.test_proxy import ProxyBench, score, weights


def pruned(requests: list[Request]) -> set[Digest]:
    """What is deleted, but for answers, which are named by their devices."""
    found = {d for r in requests if isinstance(r, PruneBlobs) for d in r.digests}
    return found - {Digest.of(f"dev-{number}".encode()) for number in (1, 2, 3)}


def learn(bench: RoundBench, number: int, **changes: object) -> set[Digest]:
    """Let a round give weights and the next one open; return what is deleted."""
    request = bench.whole_round(number)
    assert isinstance(request, AverageRound)
    body = averaged(request).model_copy(update=changes)
    return pruned(bench.handle(body)) | pruned(bench.wait(0))


def test_the_weights_of_the_newest_rounds_are_kept() -> None:
    bench = RoundBench(per_stage=9, keep_weights=2)
    bench.lead()
    gone = [learn(bench, number) for number in range(1, 6)]
    assert gone == [set(), set(), {weights(1)}, {weights(2)}, {weights(3)}]
    assert bench.told(WeightsPruned) == [
        WeightsPruned(numbers=(number,), digests=(weights(number),), kept_rounds=2)
        for number in (1, 2, 3)
    ]


def test_ten_rounds_are_kept_where_nothing_is_set_and_all_where_that_is() -> None:
    for rules, expected in (({}, {weights(1)}), ({"keep_weights": "all"}, set())):
        bench = RoundBench(per_stage=20, **rules)
        bench.lead()
        assert [learn(bench, number) for number in range(1, 11)] == [set()] * 10
        assert learn(bench, 11) == expected


def test_what_a_model_is_made_of_is_kept() -> None:
    bench = RoundBench(per_stage=1, keep_weights=1)
    bench.lead()
    learn(bench, 1)
    bench.handle(exported(1))
    bench.command(OpenStage(class_names=names("eel")))
    bench.wait(0)
    for device in bench.devices:
        bench.answer(device, 2, key={"stage": 2, "part": 2})
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.handle(exported(2))
    bench.command(OpenStage(class_names=names("fish")))
    assert pruned(bench.wait(0)) == set()
    assert not bench.told(WeightsPruned)
    assert len(bench.core.state.rounds.made) == 2


def test_weights_of_a_network_before_count_and_go_in_their_turn() -> None:
    bench = RoundBench(per_stage=9, keep_weights=2)
    bench.lead()
    assert [learn(bench, number) for number in (1, 2)] == [set(), set()]
    other = NETWORK.model_copy(update={"name": "another"})
    bench.imports(other)
    bench.wait(0)
    gone = [learn_with(bench, other, number) for number in (4, 5, 6)]
    assert gone == [{weights(1)}, {weights(2)}, {weights(4)}]
    assert not bench.core.state.rounds.former_made


def test_what_models_of_a_network_before_are_made_of_is_kept() -> None:
    bench = RoundBench(per_stage=1, keep_weights=1)
    bench.lead()
    learn(bench, 1)
    bench.handle(exported(1))
    other = NETWORK.model_copy(update={"name": "another"})
    bench.imports(other)
    bench.command(OpenStage(class_names=names("eel")))
    bench.wait(0)
    changes = {"lineage": other.digest, "key": {"stage": 2, "part": 2}}
    for device in bench.devices:
        bench.answer(device, 2, **changes)
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.handle(exported(2))
    bench.command(OpenStage(class_names=names("fish")))
    assert pruned(bench.wait(0)) == set()


def learn_with(bench: RoundBench, network: NetworkImported, number: int) -> set[Digest]:
    """Let a round of another network give weights and the next one open; return what is deleted."""
    for device in bench.devices:
        bench.answer(device, number, lineage=network.digest)
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    return pruned(bench.average(request)) | pruned(bench.wait(0))


def test_files_that_came_with_older_weights_go_too_but_not_those_in_use() -> None:
    bench = RoundBench(per_stage=9, keep_weights=1)
    bench.lead()
    fisher = offer("fisher")
    assert learn(bench, 1, extras={"fisher": fisher, "old": offer("old")}) == set()
    assert learn(bench, 2, extras={"fisher": fisher}) == {weights(1), Digest.of(b"old")}
    assert learn(bench, 3) == {weights(2), fisher.digest}


def test_weights_that_come_out_equal_again_are_kept() -> None:
    bench = RoundBench(per_stage=9, keep_weights=1)
    bench.lead()
    assert learn(bench, 1, weights=offer("still")) == set()
    assert learn(bench, 2, weights=offer("still")) == set()
    assert learn(bench, 3) == {offer("still").digest}
    assert learn(bench, 4, weights=offer("still")) == {weights(3)}
    assert offer("still").digest not in bench.core.state.rounds.pruned


class SlotBench(ProxyBench):
    """Keeps one round, and has a proxy."""

    def __init__(self) -> None:
        super().__init__(keep_weights=1)

    def choose(self, number: int, **changes: object) -> set[Digest]:
        """Let a round give weights that are scored; return what is deleted when the next opens."""
        self.say(score(self.learn(number), **changes))
        return pruned(self.wait(0))


def test_old_models_are_kept_until_others_take_their_place() -> None:
    bench = SlotBench()
    assert bench.choose(1) == set()
    assert bench.choose(2, current=weights(1)) == set()
    assert bench.choose(3, previous=weights(1), current=weights(3)) == {weights(2)}
    assert bench.choose(4, previous=weights(1), current=weights(3)) == set()
    assert bench.choose(5, previous=weights(3), current=weights(5)) == {weights(1), weights(4)}


def test_the_proxy_cannot_choose_what_is_kept_no_longer() -> None:
    bench = SlotBench()
    bench.choose(1)
    bench.choose(2)
    refused = receipt(bench.say(score(bench.learn(3), current=weights(1)))).answer
    assert isinstance(refused, Refused)
    assert "are kept no longer" in refused.reason


def test_the_state_after_deletions_is_a_fold_of_the_ledger() -> None:
    bench = SlotBench()
    for number in (1, 2, 3):
        bench.choose(number)
    replayed = Core(bench.rules, can_learn=lambda *_: True)
    for body, device, time_ns in bench.entries:
        read = read_entry(body.kind, body.model_dump(mode="json"))
        replayed.state.apply(read, device, time_ns)
    assert replayed.state == bench.core.state
    assert replayed.state.rounds.pruned == {weights(1), weights(2)}
