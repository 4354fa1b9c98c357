"""Lies in a cohort end it or are refused; what was summed is taken out by the cohort, or undone."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, RetireDevice
from fleetledger.schemas.cohorts import CohortReveal, Hex32
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import receipt
from tests.coordinator.topics.cohorts.cohort_bench import PRIVACY, CohortBench

FIVE = PRIVACY.model_copy(update={"cohort": 5})


def opened(bench: CohortBench) -> None:
    bench.join()
    bench.wait(0)
    bench.give_words()
    bench.wait(0)


@pytest.mark.parametrize("whose", ["stranger", "dev-5"])
def test_a_share_of_nobody_is_refused(whose: str) -> None:
    bench = CohortBench(5, FIVE)
    bench.join()
    bench.wait(0)
    bench.give_words("dev-1", "dev-2", "dev-3", "dev-4")
    bench.wait(PRIVACY.answer_seconds)
    bench.reveal()
    bench.wait(0)
    body = CohortReveal(number=1, shares={DeviceId(whose): "00" * 33})
    answer = receipt(bench.message("dev-1", body)).answer
    assert isinstance(answer, Refused)
    assert f"of '{whose}' nobody asked" in answer.reason


def test_the_seed_of_a_present_member_is_taken_from_nobody() -> None:
    bench = CohortBench()
    opened(bench)
    body = CohortReveal(number=1, seeds={DeviceId("dev-2"): Hex32("00" * 32)})
    answer = receipt(bench.message("dev-1", body)).answer
    assert isinstance(answer, Refused), "with its shares, its words would be open"
    assert "does not ask for this now" in answer.reason


def test_a_wrong_seed_ends_the_cohort_by_the_check_of_its_sum() -> None:
    bench = CohortBench(5, FIVE)
    bench.join()
    bench.wait(0)
    bench.give_words("dev-1", "dev-2", "dev-3", "dev-4")
    bench.wait(PRIVACY.answer_seconds)
    lie = CohortReveal(number=1, seeds={DeviceId("dev-5"): Hex32("ab" * 32)})
    assert isinstance(receipt(bench.message("dev-1", lie)).answer, Accepted)
    bench.reveal("dev-2", "dev-3", "dev-4")
    bench.wait(0)
    bench.reveal()
    bench.wait(0)
    bench.work()
    (end,) = bench.kinds("cohort.ended")
    assert end.reason.startswith("the sum is not that of its members' samples: ")
    assert bench.core.state.contributions.sum.parts == 0


def test_a_wrong_share_ends_the_cohort_by_the_check_of_its_sum() -> None:
    bench = CohortBench()
    opened(bench)
    told = bench.members[DeviceId("dev-1")].shares(bench.order("dev-1")).shares
    lie = CohortReveal(number=1, shares=told | {DeviceId("dev-2"): "00" + "11" * 32})
    assert isinstance(receipt(bench.message("dev-1", lie)).answer, Accepted)
    bench.reveal("dev-2", "dev-3", "dev-4")
    bench.wait(0)
    bench.work()
    assert bench.cohort().step == "ended"
    assert "the sum is not that of its members' samples" in bench.cohort().why
    (end,) = bench.kinds("cohort.ended")
    assert end.opened
    known = bench.core.state.contributions.of(DeviceId("dev-1"))
    assert known.answered(1), "what was opened once is given in no other cohort"


def test_words_that_are_no_samples_end_the_cohort() -> None:
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    bench.give_words("dev-1", wrong=True)
    bench.give_words("dev-2", "dev-3", "dev-4")
    bench.wait(0)
    bench.reveal()
    bench.wait(0)
    bench.work()
    assert bench.cohort().step == "ended"
    assert bench.core.state.contributions.sum.parts == 0


def test_words_of_another_number_end_the_cohort_and_name_who_gave_them() -> None:
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    body, payload = bench.members[DeviceId("dev-2")].words(bench.cohort().body)
    shorter = payload[:-8]
    digest = type(body.payload).of(shorter)
    short = body.model_copy(update={"payload": digest, "payload_bytes": len(shorter)})
    bench.give_payload("dev-2", short, shorter)
    bench.give_words("dev-1", "dev-3", "dev-4")
    bench.wait(0)
    bench.reveal()
    bench.wait(0)
    bench.work()
    assert "words: dev-2 gave 129, and dev-1 130" in bench.cohort().why


def test_what_is_told_twice_is_told_alike() -> None:
    bench = CohortBench()
    opened(bench)
    first, again = bench.reveal("dev-1", "dev-1")
    assert first.answer == again.answer
    other = CohortReveal(number=1, shares={DeviceId("dev-2"): "00" * 33})
    answer = receipt(bench.message("dev-1", other)).answer
    assert isinstance(answer, Refused)
    assert "told cohort 1 otherwise before" in answer.reason


def test_the_operator_takes_the_whole_sum_out_and_no_member_alone() -> None:
    bench = CohortBench()
    bench.join()
    bench.through()
    refused = bench.command(RetractContributions(device=DeviceId("dev-1"), reason="broken"))
    assert not refused.done
    assert "`fleetledger ledger retract cohort-1 --reason TEXT`" in refused.text
    done = bench.command(RetractContributions(device=DeviceId("cohort-1"), reason="broken"))
    assert done.done, done.text
    assert bench.core.state.contributions.sum.parts == 0
    assert bench.core.state.contributions.of(DeviceId("dev-1")).answered(1), "nobody gives it anew"


def test_a_member_takes_its_part_out_by_its_exact_negative() -> None:
    bench = CohortBench(5, PRIVACY.model_copy(update={"cohort": 5, "least": 5}))
    bench.join()
    bench.through()
    gone = bench.members[DeviceId("dev-1")]
    rest = [name for name in bench.members if name != gone.name]
    (answer,) = bench.join(gone.name, undoes=1)
    assert isinstance(answer.answer, Accepted)
    bench.join(*rest)
    bench.wait(0)
    bench.give_words(gone.name, number=2, negative=True)
    bench.give_words(*rest, number=2)
    bench.wait(0)
    bench.reveal(number=2)
    bench.wait(0)
    bench.work()
    assert bench.cohort(2).step == "summed", bench.cohort(2).why
    twice = [bench.members[DeviceId(name)].made.payload for name in rest] * 2
    assert bench.total() == bench.total(twice)


def test_with_a_cohort_those_go_that_take_something_out_of_it() -> None:
    bench = CohortBench()
    bench.join()
    bench.through()
    bench.join("dev-1", undoes=1)
    bench.join("dev-2", "dev-3", "dev-4")
    bench.wait(0)
    bench.give_words("dev-1", number=2, negative=True)
    bench.give_words("dev-2", "dev-3", "dev-4", number=2)
    bench.wait(0)
    bench.reveal(number=2)
    bench.wait(0)
    bench.work()
    assert bench.core.state.contributions.sum.parts == 2
    done = bench.command(RetractContributions(device=DeviceId("cohort-1"), reason="broken"))
    assert done.done
    assert "with it 1 contribution of device cohort-2" in done.text
    assert bench.core.state.contributions.sum.parts == 0


def test_nothing_is_taken_out_of_a_cohort_that_is_in_no_sum() -> None:
    bench = CohortBench()
    (answer,) = bench.join("dev-1", undoes=7)
    assert isinstance(answer.answer, Refused)
    assert "cohort 7 is in no sum" in answer.answer.reason


def test_a_part_in_a_cohort_is_not_withdrawn_alone() -> None:
    bench = CohortBench()
    bench.join()
    bench.through()
    body = Withdrawal(key=PartKey(stage=1, part=1), revision=1, reason="relabelled")
    answer = receipt(bench.message("dev-1", body)).answer
    assert isinstance(answer, Refused)
    assert "is in the sum of cohort 1; join another one" in answer.reason


def test_a_retired_member_stays_in_the_sum_which_says_how_to_take_it_out() -> None:
    bench = CohortBench()
    bench.join()
    bench.through()
    command = RetireDevice(device=DeviceId("dev-1"), reason="sold", retracts=True)
    done = bench.command(command)
    assert done.done
    assert "is in the sum of cohort-1" in done.text
    assert bench.core.state.contributions.sum.parts == 1


@pytest.mark.parametrize(("most", "step"), [(10, "summed"), (9, "ended")])
def test_a_sum_is_bounded_by_what_its_members_may_give(most: int, step: str) -> None:
    bench = CohortBench(max_samples_per_class=most)
    bench.join()
    bench.through()
    assert bench.cohort().step == step, "each of four has ten samples of each class"
    if step == "ended":
        assert "samples: 40 of class 'cat' exceed 36" in bench.cohort().why


def test_no_device_is_called_like_a_cohort() -> None:
    answer = CohortBench().command(AdmitDevice(device=DeviceId("cohort-1")))
    assert not answer.done
    assert "is the name of a cohort's sum" in answer.text
