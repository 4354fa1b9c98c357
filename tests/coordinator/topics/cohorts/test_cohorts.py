"""A cohort from its forming to its sum, and everybody who vanishes on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleetledger.coordinator.core.rules import NoiseRules
from fleetledger.coordinator.core.saved_state import read_state, write_state
from fleetledger.coordinator.topics.devices.commands import RetireDevice
from fleetledger.schemas.cohorts import CohortJoin
from fleetledger.schemas.receipts import Accepted, Later, Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import contribution
from tests.coordinator.topics.cohorts.cohort_bench import LED, PRIVACY, CohortBench, receipt


def test_the_sum_behind_masks_is_that_of_the_parts_themselves() -> None:
    bench = CohortBench()
    assert all(isinstance(each.answer, Accepted) for each in bench.join())
    bench.through()
    (summed,) = bench.kinds("cohort.summed")
    assert sum(summed.samples.values()) == 4 * 40
    plain = [member.made.payload for member in bench.members.values()]
    assert bench.total() == bench.total(plain)
    assert bench.core.state.contributions.sum.parts == 1
    assert bench.orders == dict.fromkeys(bench.members), "nobody has anything more to do"


def test_words_alone_are_in_no_sum_and_are_deleted_once_it_is_known() -> None:
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    bench.give_words()
    assert bench.core.state.contributions.sum.parts == 0
    assert len(bench.blobs) == 4
    bench.wait(0)
    bench.reveal()
    bench.wait(0)
    bench.work()
    (summed,) = bench.kinds("cohort.summed")
    assert set(bench.blobs) == {summed.payload}


def test_words_are_kept_where_a_replay_is_to_make_the_sum_again() -> None:
    bench = CohortBench(privacy=PRIVACY.model_copy(update={"keep_masked": True}))
    bench.join()
    bench.through()
    assert len(bench.blobs) == 5
    assert not bench.kinds("cohort.pruned")


@pytest.mark.parametrize("step", ["joined", "mask", "silent", "opening", "summing"])
def test_after_a_restart_each_step_goes_on(step: str) -> None:
    bench = CohortBench(5, PRIVACY.model_copy(update={"cohort": 5}))
    silent = DeviceId("dev-5")
    bench.join()
    if step == "joined":
        bench.restart()
    bench.wait(0)
    if step == "mask":
        bench.restart()
    bench.give_words("dev-1", "dev-2", "dev-3", "dev-4")
    bench.wait(PRIVACY.answer_seconds)
    if step == "silent":
        bench.restart()
    assert bench.cohort().silent == (silent,)
    bench.reveal()
    bench.wait(0)
    if step == "opening":
        bench.restart()
    bench.reveal()
    bench.wait(0)
    if step == "summing":
        bench.restart()
    bench.work()
    plain = [m.made.payload for m in bench.members.values() if m.name != silent]
    assert bench.total() == bench.total(plain)


def test_the_state_of_each_step_is_read_as_it_was_written() -> None:
    bench = CohortBench(5, PRIVACY.model_copy(update={"cohort": 5}))
    others = ("dev-1", "dev-2", "dev-3", "dev-4")
    steps: list[Callable[[], object]] = [
        bench.join,
        lambda: bench.wait(0),
        lambda: bench.give_words(*others),
        lambda: bench.wait(PRIVACY.answer_seconds),
        bench.reveal,
        lambda: bench.wait(0),
        bench.reveal,
        lambda: bench.wait(0),
        bench.work,
    ]
    for step in steps:
        step()
        written = write_state(bench.core.state)
        assert write_state(read_state(written.__getitem__)) == written
    assert bench.cohort().step == "summed"


def test_who_gives_nothing_is_left_out_and_joins_the_next_cohort() -> None:
    bench = CohortBench(5, PRIVACY.model_copy(update={"cohort": 5}))
    bench.join()
    bench.wait(0)
    bench.give_words("dev-1", "dev-2", "dev-3", "dev-4")
    body, payload = bench.members[DeviceId("dev-5")].words(bench.cohort().body)
    bench.wait(PRIVACY.answer_seconds)
    assert bench.orders[DeviceId("dev-5")] is None
    late = bench.give_payload("dev-5", body, payload)
    assert isinstance(late.answer, Refused)
    assert "goes on without this device" in late.answer.reason
    (again,) = bench.join("dev-5")
    assert isinstance(again.answer, Accepted)
    assert DeviceId("dev-5") in bench.core.state.cohorts.joined


def test_who_gives_words_and_tells_nothing_is_left_out_too() -> None:
    bench = CohortBench(6, PRIVACY.model_copy(update={"cohort": 6}))
    bench.join()
    bench.wait(0)
    bench.give_words(*(f"dev-{i}" for i in range(1, 6)))
    bench.wait(PRIVACY.answer_seconds)
    bench.reveal("dev-1", "dev-2", "dev-3")
    bench.wait(PRIVACY.answer_seconds)
    assert bench.cohort().step == "ended", "three of six are fewer than five"
    assert not bench.kinds("cohort.opening")


def test_silence_after_words_goes_on_with_those_that_are_left() -> None:
    bench = CohortBench(8, PRIVACY.model_copy(update={"cohort": 8}))
    bench.join()
    bench.wait(0)
    bench.give_words(*(f"dev-{i}" for i in range(1, 8)))
    bench.wait(PRIVACY.answer_seconds)
    bench.reveal(*(f"dev-{i}" for i in range(1, 7)))
    bench.wait(PRIVACY.answer_seconds)
    assert bench.cohort().silent == ("dev-7", "dev-8")
    assert not bench.core.state.contributions.of(DeviceId("dev-7")).answered(1)
    bench.reveal()
    bench.wait(0)
    bench.reveal()
    bench.wait(0)
    bench.work()
    left = ("dev-7", "dev-8")
    plain = [m.made.payload for m in bench.members.values() if m.name not in left]
    assert bench.total() == bench.total(plain)
    assert len(bench.blobs) == 1, "words that are in no sum are deleted as well"


def test_a_cohort_that_too_few_answer_ends_before_anything_is_opened() -> None:
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    bench.give_words("dev-1", "dev-2")
    bench.wait(PRIVACY.answer_seconds)
    (end,) = bench.kinds("cohort.ended")
    assert "2 members of 4 answered in time, and 3 are needed" in end.reason
    assert not end.opened
    assert not bench.blobs
    assert all(isinstance(each.answer, Accepted) for each in bench.join())
    bench.through(2)
    plain = [member.made.payload for member in bench.members.values()]
    assert bench.total() == bench.total(plain)


def test_what_opens_waits_for_as_long_as_it_takes() -> None:
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    bench.give_words()
    bench.wait(0)
    bench.reveal("dev-1", "dev-2")
    bench.wait(100 * PRIVACY.answer_seconds)
    assert bench.cohort().step == "opening"
    assert not bench.sums
    bench.reveal("dev-4")
    bench.wait(0)
    bench.work()
    assert bench.cohort().step == "summed"


@pytest.mark.parametrize("step", ["joined", "mask", "silent", "opening"])
def test_nobody_waits_for_a_retired_member(step: str) -> None:
    bench = CohortBench(8, PRIVACY.model_copy(update={"cohort": 8}))
    gone = RetireDevice(device=DeviceId("dev-8"), reason="lost")
    others = [name for name in bench.members if name != "dev-8"]
    bench.join()
    if step == "joined":
        bench.command(gone)
    bench.wait(0)
    if step == "mask":
        bench.command(gone)
    bench.give_words(*others, *(["dev-8"] if step in {"silent", "opening"} else []))
    if step == "silent":
        bench.command(gone)
    bench.wait(0)
    if step == "opening":
        bench.command(gone)
    if bench.cohort().step == "silent":
        bench.reveal(*others)
        bench.wait(0)
    bench.reveal(*others)
    bench.wait(0)
    bench.work()
    inside = step in {"silent", "opening"}
    plain = [m.made.payload for m in bench.members.values() if inside or m.name != "dev-8"]
    assert bench.total() == bench.total(plain)


def test_a_device_of_a_masked_stage_gives_nothing_without_masks() -> None:
    bench = CohortBench()
    body = contribution("open", method="fed3r", samples={"cat": 3})
    answer = bench.give("dev-1", body).answer
    assert isinstance(answer, Refused)
    assert "summed behind masks, so join a cohort" in answer.reason


def test_repeats_get_their_receipts_again() -> None:
    bench = CohortBench()
    member = bench.members[DeviceId("dev-1")]
    said = member.join()
    first, again = (bench.message("dev-1", said) for _ in range(2))
    assert [r.body.answer for r in first if hasattr(r, "leaf")] == [
        r.body.answer for r in again if hasattr(r, "leaf")
    ]
    bench.join("dev-2", "dev-3", "dev-4")
    bench.wait(0)
    body, payload = member.words(bench.cohort().body)
    given, repeat = (bench.give_payload("dev-1", body, payload) for _ in range(2))
    assert given.answer == repeat.answer


def test_words_that_come_again_after_their_sum_get_their_receipt_again() -> None:
    """Else the device took them for refused, and gave them in another cohort, too."""
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    (first, *_) = bench.give_words()
    body, payload = bench.members[DeviceId("dev-1")].words(bench.cohort().body)
    given = next(e for e, d, _ in bench.entries if d == "dev-1" and e.kind.startswith("contrib"))
    again = body.model_copy(update={"payload": given.part.payload})
    bench.wait(0)
    bench.reveal("dev-2", "dev-3", "dev-4")
    bench.wait(0)
    bench.work()
    assert bench.cohort().step == "summed"
    assert bench.give_payload("dev-1", again, payload).answer == first.answer


def test_a_member_of_an_open_cohort_joins_none_beside_it() -> None:
    bench = CohortBench()
    bench.join()
    bench.wait(0)
    (answer,) = (each.answer for each in bench.join("dev-1"))
    assert isinstance(answer, Later)
    assert "is in cohort 1, which is not over" in answer.reason


def test_who_was_away_while_a_cohort_opened_is_still_told_of_it() -> None:
    """Else the device took its part for one that no sum has, and gave it again."""
    bench = CohortBench(4, PRIVACY.model_copy(update={"cohort": 4}))
    away = DeviceId("dev-4")
    bench.join()
    bench.wait(0)
    bench.give_words()
    bench.wait(0)
    bench.reveal("dev-1", "dev-2", "dev-3")
    bench.wait(0)
    bench.work()
    assert bench.cohort().step == "summed"
    assert [name for name, order in bench.orders.items() if order is not None] == [away]
    bench.restart()
    assert bench.order(away).step == "opening"
    (receipt,) = bench.reveal(away)
    assert isinstance(receipt.answer, Accepted)
    assert away not in bench.core.state.cohorts.of_device


def test_a_receipt_names_the_entry_of_the_word_also_once_there_is_a_cohort() -> None:
    bench = CohortBench()
    first = bench.join()
    bench.wait(0)
    assert bench.cohort().step == "mask"
    for member, said in zip(bench.cohort().body.members, first, strict=True):
        word = CohortJoin(joining=member.joining, signature=member.signature)
        assert receipt(bench.message(member.device, word)) == said


def test_who_has_no_privacy_left_is_told_before_it_is_in_a_cohort() -> None:
    """Else its words were refused, and each cohort with it ended for want of them."""
    noise = NoiseRules(protects="image", epsilon=3.0, parts=1).told
    settings = {**LED.settings, "noise": noise.model_dump(mode="json")}
    bench = CohortBench(lineage=LED.model_copy(update={"settings": settings}))
    assert all(isinstance(each.answer, Accepted) for each in bench.join())
    bench.wait(0)
    bench.give_words()
    bench.wait(0)
    bench.reveal()
    bench.wait(0)
    bench.work()
    for again in bench.join():
        assert isinstance(again.answer, Refused)
        assert "privacy: with this part the budget" in again.answer.reason
