"""Statistics as words: added modulo 2^64 behind masks, they are those of all samples together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.privacy.masks import add_mask
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fed3r.aggregate import Fed3rAggregate
from fleetledger.methods.fed3r.coordinator import COORDINATOR as FED3R
from fleetledger.methods.fed3r.device import DEVICE as FED3R_DEVICE
from fleetledger.methods.fedncm.coordinator import COORDINATOR as FEDNCM
from fleetledger.methods.statistics.words import IntegerMoments, Words
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR as STSA
from fleetledger.methods.stsa.device import DEVICE as STSA_DEVICE
from fleetledger.schemas.values import ClassName
from tests.methods.samples import WIDTH, make_samples
from tests.methods.stsa import fleet

LAYOUT = tuple(map(ClassName, ("elk", "class 2", "ape", "cat", "class 0", "class 1", "dog", "yak")))
FED3R_TOLD = FED3R.assign({}, WIDTH)
STSA_TOLD = fleet.assignment({**fleet.SMALL, "form": "exact", "group_minimum": 1})


class Told:
    """A method with samples of ten parts."""

    def __init__(self, name: str) -> None:
        self.stsa = name == "stsa"
        self.coordinator: Any = STSA if self.stsa else FED3R
        self.device: Any = STSA_DEVICE if self.stsa else FED3R_DEVICE
        self.told: Any = STSA_TOLD if self.stsa else FED3R_TOLD
        self.samples: Any = fleet.make_samples(STSA_TOLD, 90) if self.stsa else make_samples(1)
        self.layout = (*LAYOUT, *sorted({*map(ClassName, self.samples.labels)} - {*LAYOUT}))
        rows = np.array_split(np.arange(len(self.samples.labels)), 10)
        self.payloads = [self.payload(part) for part in rows]
        self.whole = self.payload(np.arange(len(self.samples.labels)))

    def payload(self, rows: np.ndarray) -> bytes:
        part = self.samples[rows]
        made: bytes = self.device.finish(self.told, part.features, part.labels).payload
        return made

    def words(self, payload: bytes) -> Words:
        words: Words = self.device.to_words(self.told, payload, self.layout)
        return words

    def sum_of(self, words: Sequence[Words], members: int | None = None) -> bytes:
        total = reduce(np.add, words)
        made = self.coordinator.from_words(self.told, total, self.layout, members or len(words))
        payload: bytes = made.payload
        return payload

    def aggregate(self, *payloads: bytes) -> Any:
        kind: Any = StsaAggregate if self.stsa else Fed3rAggregate
        parts = [
            kind.of(self.told, self.coordinator.read(self.told, payload), stage=1)
            for payload in payloads
        ]
        return reduce(lambda one, other: one + other, parts)


@pytest.fixture(params=["stsa", "fed3r"])
def method(request: pytest.FixtureRequest) -> Told:
    return Told(request.param)


def test_added_words_are_the_statistics_of_all_samples_together(method: Told) -> None:
    total = method.sum_of([method.words(payload) for payload in method.payloads])
    assert method.aggregate(total).digest == method.aggregate(method.whole).digest
    assert method.aggregate(total).digest == method.aggregate(*method.payloads).digest
    method.coordinator.check_sum(method.told, [total])


def test_masks_that_vanish_change_nothing(method: Told) -> None:
    words = [method.words(payload) for payload in method.payloads]
    plain = method.sum_of(words)
    add_mask(words[0], bytes(32))
    add_mask(words[1], bytes(32), taken_off=True)
    assert method.sum_of(words) == plain
    assert words[0].max() > 2**63, "a mask spans all words"


def test_a_device_takes_a_part_out_by_its_exact_negative(method: Told) -> None:
    words = [method.words(payload) for payload in method.payloads]
    first = method.sum_of(words[:5])
    second = method.sum_of([words[5], words[6], words[7] - words[0]])
    expected = method.aggregate(*method.payloads[1:8]).digest
    assert method.aggregate(first, second).digest == expected
    method.coordinator.check_sum(method.told, [first, second])


def test_a_sum_that_no_samples_have_is_refused(method: Told) -> None:
    words = [method.words(payload) for payload in method.payloads]
    bad = words[0].copy()
    bad.view(np.int64)[-1] -= 2**40
    wrong = method.sum_of([bad, *words[1:]])
    with pytest.raises(ContributionError, match="gram"):
        method.coordinator.check_sum(method.told, [wrong])
    # What was never given cannot be taken out.
    with pytest.raises(ContributionError, match="was not added"):
        method.coordinator.check_sum(
            method.told, [method.sum_of([words[0] - words[1] - words[2]], 3)]
        )


def test_a_device_cannot_call_its_part_the_sum_of_a_cohort(method: Told) -> None:
    total = method.sum_of([method.words(method.payloads[0])], 3)
    with pytest.raises(ContributionError, match="members: 3; a device gives its own part"):
        method.coordinator.check(method.told, total)


def test_words_of_another_size_are_refused(method: Told) -> None:
    words = method.words(method.payloads[0])
    with pytest.raises(ContributionError, match="words: uint64"):
        method.coordinator.from_words(method.told, words[:-1], method.layout, 1)
    with pytest.raises(ContributionError, match="words: int64"):
        method.coordinator.from_words(method.told, words.view(np.int64), method.layout, 1)


def test_a_class_without_a_place_is_refused(method: Told) -> None:
    with pytest.raises(MethodError, match="class_names: the cohort's words have no place for"):
        method.device.to_words(method.told, method.payloads[0], method.layout[:1])


def test_more_samples_than_the_members_may_have_are_refused(method: Told) -> None:
    words = method.words(method.payloads[0])
    most = method.told.settings.max_samples_per_part
    words[np.flatnonzero(words[: len(method.layout)])[0]] += np.uint64(3 * most)
    with pytest.raises(ContributionError, match=f"3 members give at most {3 * most}"):
        method.coordinator.from_words(method.told, words, method.layout, 3)


def test_classes_lie_where_the_layout_says() -> None:
    one = np.array([[3, -4]]), np.array([5, 6, 7])
    moments = IntegerMoments((ClassName("cat"),), np.array([2]), *one)
    layout = (ClassName("dog"), ClassName("cat"))
    words = moments.to_words(layout).view(np.int64)
    assert words.tolist() == [0, 2, 0, 0, 3, -4, 5, 6, 7]


@pytest.mark.parametrize(
    "settings",
    [
        {**fleet.SMALL, "form": "compact"},
        {**fleet.SMALL, "form": "exact", "noise": "sums"},
        {**fleet.SMALL, "form": "estimated"},
        fleet.GAUSSIAN,
    ],
    ids=["compact", "noise", "estimated", "gaussian"],
)
def test_what_is_no_sum_of_integers_is_refused(settings: dict[str, Any]) -> None:
    told = fleet.assignment(settings)
    with pytest.raises(MethodError, match=r"masks: parts are summed .* in the form 'exact'"):
        STSA_DEVICE.to_words(told, b"", LAYOUT)
    with pytest.raises(MethodError, match=r"\[privacy\] masks = false"):
        STSA.from_words(told, np.zeros(3, np.uint64), LAYOUT, 3)


def test_a_device_gives_the_exact_form_where_it_may_choose() -> None:
    told = fleet.assignment({**fleet.SMALL, "form": "compact", "forms": ["exact"]})
    assert told.masked_form() == "exact"
    payload = STSA_DEVICE.finish(told, *_samples(told)).payload
    with pytest.raises(MethodError, match="form: 'compact' is not summed behind masks"):
        STSA_DEVICE.to_words(told, payload, LAYOUT)


def _samples(told: Any) -> tuple[np.ndarray, list[str]]:
    samples = fleet.make_samples(told, 30)
    return samples.features, samples.labels


def test_other_methods_say_that_they_are_not_summed_behind_masks() -> None:
    told = FEDNCM.assign({}, WIDTH)
    with pytest.raises(MethodError, match="masks: parts of 'fedncm' are not summed behind masks"):
        FEDNCM.from_words(told, np.zeros(3, np.uint64), LAYOUT, 3)
