"""What an operator retracts leaves the sum for good; of rounds, what came of it is marked."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.assignments import action_for
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import Request, SendToDevice
from fleetledger.coordinator.core.rules import ModelRules, Rules
from fleetledger.coordinator.core.work import (
    AverageRound,
    ExportHead,
    SolveHead,
    TakePayload,
)
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.contributions.entries import ContributionRetracted
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.entries import DescentMarked
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import HeldPart, Nothing, PartKey, Withdrawal, held_digest
from fleetledger.schemas.presence import Heartbeat, Welcome
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import (
    Bench,
    contribution,
    exported,
    names,
    offer,
    receipt,
    sent,
)
from tests.coordinator.core.round_bench import NETWORK, RoundBench

ONE, TWO = DeviceId("dev-1"), DeviceId("dev-2")


@pytest.fixture
def bench() -> Bench:
    """Two devices; the first gave two parts, the second one."""
    made = Bench(Rules(models=ModelRules(solve_every_seconds=10)))
    made.begin("dev-1", "dev-2")
    made.give("dev-1", contribution("a"))
    made.give("dev-1", contribution("b", part=1))
    made.give("dev-2", contribution("c"))
    return made


def retract(bench: Bench, device: str = ONE, part: PartKey | None = None) -> tuple[bool, str]:
    command = RetractContributions(device=DeviceId(device), part=part, reason="a broken camera")
    answer = bench.command(command)
    return answer.done, answer.text


def payloads(bench: Bench) -> set[Digest]:
    return {item.payload for item in bench.core.state.contributions.counted.values()}


def of(*texts: str) -> set[Digest]:
    return {Digest.of(text.encode()) for text in texts}


def bodies(bench: Bench, kind: type[EntryBody]) -> list[EntryBody]:
    return [body for body, _, _ in bench.entries if isinstance(body, kind)]


def test_everything_that_a_device_gave_leaves_the_sum(bench: Bench) -> None:
    done, text = retract(bench)
    assert done
    assert text == (
        "2 contributions of device dev-1 left the sum; a model of the 1 other is solved anew"
    )
    assert payloads(bench) == of("c")
    found = bodies(bench, ContributionRetracted)
    assert [(body.key.part, body.reason) for body in found] == [
        (0, "a broken camera"),
        (1, "a broken camera"),
    ]


def test_one_part_may_be_retracted_alone(bench: Bench) -> None:
    assert retract(bench, part=PartKey(stage=1, part=1))[0]
    assert payloads(bench) == of("a", "c")


def test_a_model_is_solved_anew_without_it(bench: Bench) -> None:
    bench.wait(0)
    (first,) = [r for r in bench.wait(11) if isinstance(r, SolveHead)]
    bench.make_model(first)
    retract(bench)
    (second,) = [r for r in bench.wait(11) if isinstance(r, SolveHead)]
    assert payloads(bench) == of("c")
    assert second.version == 2


def test_nothing_is_left_to_solve_of_and_that_is_said(bench: Bench) -> None:
    retract(bench)
    _, text = retract(bench, TWO)
    assert "none is left to solve a model of: the models that there are still hold them" in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (contribution("a"), "a repeat"),
        (contribution("a", revision=1), "a repeat under a higher revision"),
        (contribution("other", revision=7), "other content of the same part"),
        (contribution("a", part=9), "the same payload under another number"),
    ],
)
def test_what_was_retracted_does_not_come_back(bench: Bench, body: object, why: str) -> None:
    retract(bench)
    answer = bench.give("dev-1", body).answer  # type: ignore[arg-type]
    assert isinstance(answer, Refused), why
    assert answer.retracted
    assert answer.reason == (
        "retracted: the operator took part 0 of stage 1 out of the sum: a broken camera; its "
        "images are not to be given again"
    )
    assert payloads(bench) == of("c")


def test_new_images_of_the_device_and_the_same_bytes_of_another_count(bench: Bench) -> None:
    retract(bench)
    assert isinstance(bench.give("dev-1", contribution("new", part=2)).answer, Accepted)
    assert isinstance(bench.give("dev-2", contribution("a", part=1)).answer, Accepted)


def test_a_payload_that_was_on_its_way_is_refused_when_it_comes(bench: Bench) -> None:
    (taking,) = bench.message("dev-1", contribution("a2", revision=1))
    assert isinstance(taking, TakePayload)
    retract(bench)
    answer = receipt(bench.handle(inputs.PayloadOutcome(ONE, taking.contribution))).answer
    assert isinstance(answer, Refused)
    assert answer.retracted
    assert payloads(bench) == of("c")


def test_the_device_is_told_at_once_and_whenever_it_is_welcomed(bench: Bench) -> None:
    command = RetractContributions(device=ONE, reason="a broken camera")
    told = sent(bench.handle(inputs.OperatorCommand("t", command)), Receipt)
    assert [(body.key.part, body.answer.retracted) for body in told] == [(0, True), (1, True)]  # type: ignore[attr-defined,union-attr]
    requests = bench.born("dev-1")
    order = [
        type(request.body)
        for request in requests
        if isinstance(request, SendToDevice) and isinstance(request.body, Receipt | Welcome)
    ]
    assert order == [Receipt, Receipt, Welcome], "before it learns what is held"
    (welcome,) = sent(requests, Welcome)
    assert isinstance(welcome, Welcome)
    assert (welcome.held, welcome.next_part) == ((), 2)


def test_a_device_that_missed_the_message_hears_it_after_its_next_heartbeat(bench: Bench) -> None:
    known = bench.core.state.contributions.of(ONE).held_parts()
    retract(bench)
    state = bench.core.state

    def beat(held: list[HeldPart]) -> list[Request]:
        heartbeat = Heartbeat(
            outbox_length=0,
            waiting_images=0,
            resident_bytes=1,
            bytes_up=0,
            bytes_down=0,
            welcomed=True,
            assignment_action=action_for(state, ONE),
            desired_action=None,
            held=held_digest(held),
        )
        return bench.message("dev-1", heartbeat)

    assert len(sent(beat(known), Receipt)) == 2
    assert beat([]) == [], "it knows"


def test_a_withdrawal_of_a_retracted_part_is_taken_and_brings_nothing_back(bench: Bench) -> None:
    retract(bench)
    withdrawal = Withdrawal(key=PartKey(stage=1, part=0), revision=1, reason="reinstalled")
    assert isinstance(receipt(bench.message("dev-1", withdrawal)).answer, Accepted)
    assert isinstance(bench.give("dev-1", contribution("a", revision=2)).answer, Refused)


def test_what_cannot_be_retracted_is_said(bench: Bench) -> None:
    assert retract(bench, "stranger") == (
        False,
        "device: 'stranger' is not admitted to this fleet",
    )
    nowhere = PartKey(stage=1, part=7)
    assert "neither in the sum nor in the mean of a round" in retract(bench, part=nowhere)[1]
    first = PartKey(stage=1, part=0)
    retract(bench, part=first)
    assert "1/0 of 'dev-1' is retracted already, by entry" in retract(bench, part=first)[1]
    retract(bench)
    assert retract(bench) == (False, "device: nothing of 'dev-1' is in a sum or a mean")


def learned(rounds: RoundBench, number: int, *devices: str) -> None:
    """One round that these devices answer; the others have nothing."""
    stage = rounds.core.state.stages.current
    assert stage is not None
    for device in rounds.devices:
        if device in devices:
            rounds.answer(device, number, key=PartKey(stage=stage, part=number))
        else:
            rounds.message(device, Nothing(stage=stage, round=number))
    rounds.wait(0)
    rounds.average(rounds.asked_for(AverageRound))  # type: ignore[arg-type]


def taken(rounds: RoundBench) -> None:
    """Let the stage close, and its network be exported."""
    requests = [*rounds.wait(0), *rounds.wait(0)]
    (export,) = [r for r in requests if isinstance(r, ExportHead)]
    rounds.handle(exported(export.solved.version))


def opens(rounds: RoundBench, *classes: str) -> None:
    assert rounds.command(OpenStage(class_names=names(*classes))).done
    rounds.wait(0)


@pytest.fixture
def rounds() -> RoundBench:
    """Four rounds in two stages; dev-3 answered from the third on."""
    made = RoundBench(per_stage=2)
    made.lead()
    learned(made, 1, "dev-1", "dev-2")
    made.wait(0)
    learned(made, 2, "dev-1", "dev-2")
    made.wait(0)
    taken(made)
    opens(made, "eel")
    learned(made, 3, "dev-1", "dev-3")
    made.wait(0)
    learned(made, 4, "dev-1", "dev-2")
    made.wait(0)
    taken(made)
    return made


def test_answers_to_rounds_are_marked_with_all_that_descends_from_them(
    rounds: RoundBench,
) -> None:
    before = rounds.core.state.rounds.weights
    done, text = retract(rounds, "dev-3")
    (marked,) = rounds.told(DescentMarked)
    assert done
    assert isinstance(marked, DescentMarked)
    assert (marked.rounds, marked.last_version, marked.versions) == ((3,), 1, (2,))
    assert marked.rounds_again == 2, "rounds 3 and 4"
    assert text == (
        "the mean of 1 round holds answers of device dev-3, and what descends from them is "
        "marked, not changed: models [2]; model 1 is the last from before it, and `fleetledger "
        "model push 1` brings it back; to be without it, 2 rounds would have to be run again"
    )
    assert "unlearn" not in text.lower()
    assert rounds.core.state.rounds.weights == before, "nothing is taken out of a mean"


def test_one_answer_may_be_retracted_alone(rounds: RoundBench) -> None:
    retract(rounds, "dev-2", PartKey(stage=2, part=4))
    (marked,) = rounds.told(DescentMarked)
    assert isinstance(marked, DescentMarked)
    assert (marked.rounds, marked.last_version, marked.versions) == ((4,), 1, (2,))
    assert marked.rounds_again == 1


def test_a_device_of_the_first_round_leaves_no_model_from_before(rounds: RoundBench) -> None:
    _, text = retract(rounds, "dev-1")
    assert "there is no model from before it" in text
    assert "4 rounds would have to be run again" in text


def test_the_operator_pushes_the_older_model_as_ever(rounds: RoundBench) -> None:
    retract(rounds, "dev-3")
    assert rounds.command(PushModel(version=1)).done
    assert rounds.core.state.models.desired is not None
    assert rounds.core.state.models.desired.version == 1


def test_models_that_come_later_say_that_they_descend(rounds: RoundBench) -> None:
    retract(rounds, "dev-3")
    opens(rounds, "fox")
    learned(rounds, 5, "dev-1")
    rounds.wait(0)
    learned(rounds, 6, "dev-1")
    rounds.wait(0)
    last = rounds.told(ModelSolved)[-1]
    assert isinstance(last, ModelSolved)
    assert (last.version, last.descends) == (3, ("dev-3",))


def test_another_network_descends_from_nothing(rounds: RoundBench) -> None:
    retract(rounds, "dev-3")
    rounds.imports(NETWORK.model_copy(update={"weights": offer("others")}))
    assert rounds.core.state.rounds.descending(rounds.core.state.size) == ()
    assert rounds.command(ImportNetwork(network=NETWORK)).done
    assert rounds.core.state.rounds.descending(rounds.core.state.size) == (), (
        "the same one from its first weights"
    )


def test_a_replay_of_the_ledger_knows_what_was_retracted(rounds: RoundBench, bench: Bench) -> None:
    retract(rounds, "dev-3")
    before = rounds.core.state.rounds.taint
    rounds.restart()
    assert rounds.core.state.rounds.taint == before
    retract(bench)
    fresh = Bench(bench.rules)
    for body, device, time_ns in bench.entries:
        fresh.core.state.apply(body, device, time_ns)
    assert fresh.core.state.devices.admitted == bench.core.state.devices.admitted
