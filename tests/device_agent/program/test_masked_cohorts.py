"""A device gives its numbers in sums of many alone, whatever its coordinator says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.settings import AgentPrivacySettings
from fleetledger.schemas.cohorts import CohortOrder, MaskedCohort
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.privacy import Masks, Privacy
from fleetledger.schemas.receipts import Refused
from fleetledger.schemas.values import DeviceId
from tests.device_agent import making
from tests.device_agent.cohort_driving import (
    FLEET,
    HandMade,
    MaskedDevice,
    aggregate,
    pooled,
)

NAMES = tuple(DeviceId(f"dev-{number}") for number in range(4))
IMAGES = {
    name: (f"cat/c{number}", f"dog/d{number}", f"eel/e{number}")[: 2 + number % 2]
    for number, name in enumerate(NAMES)
}
Made = Callable[..., HandMade]


def fleet(folder: Path, names: tuple[DeviceId, ...] = NAMES, **rules: Any) -> HandMade:
    """Devices with images that have joined."""
    devices = {name: MaskedDevice(folder / f"{name}.db", name, **rules) for name in names}
    for name, device in devices.items():
        device.connect()
        device.put(**{f"i{at}": image for at, image in enumerate(IMAGES[name])})
    made = HandMade(devices)
    made.assign()
    return made


@pytest.fixture
def four(tmp_path: Path) -> HandMade:
    return fleet(tmp_path)


def contents(*names: DeviceId) -> list[str]:
    return [image for name in names or NAMES for image in IMAGES[name]]


def state_of(made: HandMade, name: DeviceId) -> str:
    return made.devices[name].state.records.parts[making.part_key(1, 0)].state


def opened(made: HandMade, cohort: MaskedCohort, *silent: DeviceId) -> bytes:
    """Go through a cohort's steps; return the sum."""
    present = [name for name in cohort.devices if name not in silent]
    made.ask(cohort, "mask", to=present)
    made.ask(cohort, "silent", *silent)
    made.ask(cohort, "opening", *silent)
    return made.sum_of(cohort, *silent)


def test_a_device_says_that_it_is_ready_and_neither_classes_nor_numbers(four: HandMade) -> None:
    assert set(four.joins) == set(NAMES)
    assert four.plain == []
    body = four.joins[NAMES[0]]
    assert "cat" not in body.model_dump_json()
    assert len({join.joining.mask_key for join in four.joins.values()}) == 4
    assert state_of(four, NAMES[0]) == "waiting"


def test_the_sum_is_that_of_all_images_and_parts_are_given_once_it_opens(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    assert all(not body.samples for body, _ in four.words.values())
    assert {state_of(four, name) for name in NAMES} == {"waiting"}, "accepted once it opens"
    four.ask(cohort, "opening")
    assert aggregate(four.sum_of(cohort)) == pooled(*contents())
    assert {state_of(four, name) for name in NAMES} == {"accepted"}
    for device in four.devices.values():
        assert device.state.records.masking is None
        assert not device.state.records.outbox
        assert not device.state.records.ready


def test_one_that_vanishes_is_left_out_and_given_in_another_cohort(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    gone = NAMES[2]
    assert aggregate(opened(made, made.form(), gone)) == pooled(
        *contents(*(name for name in NAMES if name != gone))
    )
    # It comes back, is in no cohort any more, and joins with a fresh key.
    before = made.devices[gone].state.records.masking
    made.assign(gone)
    assert state_of(made, gone) == "waiting"
    assert before is not None
    made.devices[gone].kill()
    made.hear(gone)
    assert set(made.joins) == {gone}


def test_late_words_are_given_in_another_cohort_with_another_key(four: HandMade) -> None:
    cohort = four.form()
    late = NAMES[1]
    first = next(m.joining for m in cohort.members if m.device == late)
    device = four.devices[late]
    order = CohortOrder(cohort=cohort, step="mask")
    device.give(inputs_assigned(four, order))
    device.scan()
    device.work()
    four.hear(late, answer=Refused(reason="cohort: 1 goes on without this device"))
    assert late not in four.words
    assert device.state.records.dead_letters == 0, "it is given anew"
    four.assign(late)
    assert four.joins[late].joining.mask_key != first.mask_key
    assert four.joins[late].joining.commitment != first.commitment
    assert state_of(four, late) == "waiting"


def inputs_assigned(made: HandMade, order: CohortOrder | None) -> inputs.Assigned:
    return inputs.Assigned(making.COORDINATOR, made.assignment(order))


def test_who_fell_silent_after_its_words_joins_anew(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    silent = NAMES[3]
    four.ask(cohort, "silent", silent)
    assert all(set(told) == {silent} for told in four.seeds.values())
    four.assign(silent)  # no order any more
    assert set(four.joins) == {silent}
    four.ask(cohort, "opening", silent)
    assert aggregate(four.sum_of(cohort, silent)) == pooled(*contents(*NAMES[:3]))
    assert all(silent not in told for told in four.shares.values())


def test_a_cohort_that_ended_before_it_opened_is_joined_anew(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    four.assign()
    again = four.form()
    assert {m.joining.mask_key for m in again.members}.isdisjoint(
        m.joining.mask_key for m in cohort.members
    )
    assert aggregate(opened(four, again)) == pooled(*contents())


def test_what_was_opened_is_never_given_again(four: HandMade) -> None:
    cohort = four.form()
    opened(four, cohort)
    four.assign()  # as after an end that came too late
    for device in four.devices.values():
        device.kill()
    four.hear()
    four.assign()
    assert four.joins == {}
    assert {state_of(four, name) for name in NAMES} == {"accepted"}


@pytest.mark.parametrize("step", ["join", "mask", "seeds", "shares"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_step_goes_on(tmp_path: Path, step: str, when: str) -> None:
    """Killed before a job's result is written, or after it and before anything was sent."""
    made = fleet(tmp_path, NAMES[:3]) if step != "join" else None
    killed, gone = NAMES[0], NAMES[3]
    if made is None:
        devices = {n: MaskedDevice(tmp_path / f"{n}.db", n) for n in NAMES[:3]}
        for name, device in devices.items():
            device.connect()
            device.put(**{f"i{at}": image for at, image in enumerate(IMAGES[name])})
        made = HandMade(devices)
        kill_in(made, killed, None, "join", when)
        made.assign(*NAMES[1:3])
        cohort = made.form()
        assert aggregate(opened(made, cohort)) == pooled(*contents(*NAMES[:3]))
        return
    made.devices[gone] = MaskedDevice(tmp_path / f"{gone}.db", gone)
    made.devices[gone].connect()
    made.devices[gone].put(**{f"i{at}": image for at, image in enumerate(IMAGES[gone])})
    made.assign(gone)
    cohort = made.form()
    present = list(NAMES[:3])
    steps = {"mask": ("mask", ()), "seeds": ("silent", (gone,)), "shares": ("opening", (gone,))}
    for name, (asked, silent) in steps.items():
        made.ask(cohort, asked, *silent, to=present[1:])
        if name == step:
            shares = {}
            if asked == "opening":
                shares = {
                    of: body.cohort.shares[killed]
                    for of, (body, _) in made.words.items()
                    if of != killed and body.cohort is not None
                }
            order = CohortOrder(cohort=cohort, step=asked, silent=silent, shares=shares)
            kill_in(made, killed, order, step, when)
        else:
            made.ask(cohort, asked, *silent, to=[killed])
    assert aggregate(made.sum_of(cohort, gone)) == pooled(*contents(*present))


def kill_in(
    made: HandMade, name: DeviceId, order: CohortOrder | None, step: str, when: str
) -> None:
    """Give an assignment, and kill the device while it does what it asks for."""
    device = made.devices[name]
    device.give(inputs_assigned(made, order))
    device.give(inputs.FetchFinished(making.digest("frozen")))
    device.scan()
    device.work(stop=step if when == "before" else "")
    device.kill()
    device.scan()
    device.work()
    made.hear(name)


def test_words_that_were_masked_once_stay_the_same_after_a_kill(four: HandMade) -> None:
    cohort = four.form()
    device = four.devices[NAMES[0]]
    device.give(inputs_assigned(four, CohortOrder(cohort=cohort, step="mask")))
    device.scan()
    device.work()
    key = OutboxKey("contribution", making.part_key(1, 0))
    given = device.state.records.outbox[key].body
    device.kill()
    device.scan()
    device.work()
    assert device.state.records.outbox[key].body == given


# What a coordinator may lie about.


def test_a_forged_member_gets_nothing(four: HandMade) -> None:
    honest = four.form()
    first, second, *rest = honest.members
    forged = second.model_copy(
        update={"key": SigningKey.fresh(KeyName(f"{FLEET}/device/other")).verify_key}
    )
    cohort = honest.model_copy(update={"members": (first, forged, *rest)})
    four.ask(cohort, "mask", to=[NAMES[0]])
    assert four.words == {}
    assert "gives nothing in it" in told(four, NAMES[0])


def test_another_key_for_oneself_gets_nothing(four: HandMade) -> None:
    key = SigningKey.fresh(KeyName(f"{FLEET}/device/dev-0"))
    mine = four.member(NAMES[0])
    signed = mine.joining.signature(FLEET, NAMES[0], key)
    mine = mine.model_copy(update={"key": key.verify_key, "signature": signed})
    cohort = four.form()
    cohort = cohort.model_copy(update={"members": (mine, *cohort.members[1:])})
    four.ask(cohort, "mask", to=[NAMES[0]])
    assert four.words == {}
    assert "with a key that it does not have" in told(four, NAMES[0])


def told(made: HandMade, name: DeviceId) -> str:
    return " ".join(made.devices[name].state.told.problems)


def test_a_cohort_that_is_too_small_for_the_owner_gets_nothing(tmp_path: Path) -> None:
    made = fleet(tmp_path, privacy=AgentPrivacySettings(least_cohort=5))
    cohort = made.form()
    made.ask(cohort, "mask")
    assert made.words == {}
    assert "asks for 5 (privacy.least_cohort in agent.toml)" in told(made, NAMES[0])


def test_cohorts_that_can_never_be_large_enough_are_declined(tmp_path: Path) -> None:
    device = MaskedDevice(tmp_path / "d.db", "dev-0", privacy=AgentPrivacySettings(least_cohort=20))
    device.connect()
    device.put(a="cat/1")
    made = HandMade({NAMES[0]: device}, Privacy(masks=Masks(least=3, most=10)))
    device.give(inputs_assigned(made, None))
    device.scan()
    (said,) = device.sent(Nothing)
    assert isinstance(said, Nothing)
    assert "privacy.least_cohort = 20: cohorts of this fleet have at most 10" in said.reason


def test_an_owner_can_demand_masks(tmp_path: Path) -> None:
    required = AgentPrivacySettings(masks="required")
    device = MaskedDevice(tmp_path / "d.db", "dev-0", privacy=required)
    device.connect()
    device.put(a="cat/1")
    made = HandMade({NAMES[0]: device}, privacy=None)
    device.give(inputs_assigned(made, None))
    device.scan()
    (said,) = device.sent(Nothing)
    assert isinstance(said, Nothing)
    assert said.reason.startswith("privacy.masks = 'required': this device gives nothing")
    assert device.messages() == []


def test_another_view_of_the_cohort_gets_no_shares(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    other = cohort.model_copy(update={"class_names": cohort.class_names[:1]})
    four.ask(other, "opening", to=[NAMES[0]])
    assert four.shares == {}
    assert "another one than that to which this device gave its words" in told(four, NAMES[0])


def test_nobody_is_silent_and_present_to_one_device(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    four.ask(cohort, "silent", NAMES[3], to=[NAMES[0]])
    assert set(four.seeds[NAMES[0]]) == {NAMES[3]}
    four.ask(cohort, "opening", to=[NAMES[0]])  # with dev-3 among those present
    assert four.shares == {}
    assert "was silent, and is said to be present now" in told(four, NAMES[0])


def test_nobody_is_present_and_silent_to_one_device(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    four.ask(cohort, "opening", to=[NAMES[0]])
    assert set(four.shares[NAMES[0]]) == set(NAMES)
    four.ask(cohort, "silent", NAMES[3], to=[NAMES[0]])
    assert four.seeds == {}
    four.devices[NAMES[0]].kill()
    four.ask(cohort, "silent", NAMES[3], to=[NAMES[0]])
    assert four.seeds == {}


def test_no_share_is_told_of_a_cohort_to_which_nothing_was_given(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask", to=NAMES[1:])
    four.ask(cohort, "opening", to=[NAMES[0]])
    four.ask(cohort, "silent", NAMES[3], to=[NAMES[0]])
    assert four.shares == {}
    assert four.seeds == {}


def test_words_are_given_to_one_cohort_alone(four: HandMade) -> None:
    joins = dict(four.joins)
    first = four.form()
    four.ask(first, "mask", to=[NAMES[0]])
    assert set(four.words) == {NAMES[0]}
    four.joins = joins
    second = four.form(NAMES[0], NAMES[1], NAMES[2])
    four.ask(second, "mask", to=[NAMES[0]])
    assert four.words == {}


def test_shares_that_others_did_not_seal_are_left_out_and_told(four: HandMade) -> None:
    cohort = four.form()
    four.ask(cohort, "mask")
    body, words = four.words[NAMES[1]]
    assert body.cohort is not None
    bad = dict.fromkeys(body.cohort.shares, body.cohort.shares[NAMES[2]])
    wrong = body.model_copy(update={"cohort": body.cohort.model_copy(update={"shares": bad})})
    four.words[NAMES[1]] = (wrong, words)
    four.ask(cohort, "opening", to=[NAMES[0]])
    assert set(four.shares[NAMES[0]]) == {*NAMES} - {NAMES[1]}
    assert "was not sealed for this device" in told(four, NAMES[0])


# Images that are taken back.


def test_a_relabelled_image_is_given_as_the_new_part_less_the_old_one(four: HandMade) -> None:
    first = opened(four, four.form())
    device = four.devices[NAMES[0]]
    device.put(i0="dog/c0", i1="dog/d0")
    four.assign()
    assert set(four.joins) == {NAMES[0]}
    assert four.joins[NAMES[0]].joining.undoes == 1
    for number, name in enumerate(NAMES[1:]):
        four.devices[name].put(
            **{
                **{f"i{at}": image for at, image in enumerate(IMAGES[name])},
                "n": f"cat/n{number}",
            }
        )
    four.assign()
    second = opened(four, four.form())
    new = [f"cat/n{number}" for number in range(3)]
    moved = ["dog/c0", "dog/d0"]
    assert aggregate(first, second) == pooled(*moved, *contents(*NAMES[1:]), *new)


def test_images_without_a_class_are_taken_out_exactly(four: HandMade) -> None:
    first = opened(four, four.form())
    four.devices[NAMES[0]].put(i0="fox/c0", i1="fox/d0")
    for number, name in enumerate(NAMES[1:]):
        four.devices[name].put(
            **{
                **{f"i{at}": image for at, image in enumerate(IMAGES[name])},
                "n": f"cat/n{number}",
            }
        )
    four.assign()
    assert four.joins[NAMES[0]].joining.undoes == 1
    second = opened(four, four.form())
    new = [f"cat/n{number}" for number in range(3)]
    assert aggregate(first, second) == pooled(*contents(*NAMES[1:]), *new)
    assert state_of(four, NAMES[0]) == "withdrawn"


def test_where_nothing_is_to_be_taken_out_the_whole_part_is_given(four: HandMade) -> None:
    opened(four, four.form())
    device = four.devices[NAMES[0]]
    device.put(i0="dog/c0", i1="dog/d0")
    device.give(inputs_assigned(four, None))
    device.scan()
    device.work()
    four.hear(NAMES[0], answer=Refused(reason="undoes: cohort 1 is in no sum"))
    device.work()
    device.wait(60)
    four.hear(NAMES[0])
    assert four.joins[NAMES[0]].joining.undoes is None
