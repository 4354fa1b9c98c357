"""Answers as words: added modulo 2^64 behind masks, their mean is that of the answers."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from fleetledger.learning.privacy.masks import add_mask
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.words import Words, answer_words
from tests.methods.exchange import Exchange
from tests.methods.fbl.making import EXCHANGE as FBL
from tests.methods.fedhaf.making import EXCHANGE as FEDHAF
from tests.methods.rounds.making import EXCHANGE as ROUNDS

COUNTS = (5, 1, 10)
every = pytest.mark.parametrize("method", [FEDHAF, ROUNDS], ids=["fedhaf", "rounds"])


def words_of(method: Exchange, averaging: str) -> list[Words]:
    of = method.assignment(averaging=averaging)
    _, answers = method.answers(of, method.asked(of), *COUNTS)
    return [answer_words(of, answer.read(), answer.samples) for answer in answers]


@every
@pytest.mark.parametrize("averaging", ["plain", "samples"])
def test_the_mean_is_the_same_to_the_last_bit(method: Exchange, averaging: str) -> None:
    of = method.assignment(averaging=averaging)
    question = method.asked(of)
    _, answers = method.answers(of, question, *COUNTS)
    expected = method.coordinator.combine(of, question, answers)
    words = [answer_words(of, answer.read(), answer.samples) for answer in answers]
    assert words[0][0] == (COUNTS[0] if averaging == "samples" else 1)
    add_mask(words[0], bytes(32))
    add_mask(words[2], bytes(32), taken_off=True)
    total = method.coordinator.summing(of, question, 3)
    total.join(method.coordinator.from_words(of, question, reduce(np.add, words), 3))
    made = method.coordinator.combine(of, question, total)
    assert (made.aggregate, made.weights) == (expected.aggregate, expected.weights)
    assert made.samples == (16 if averaging == "samples" else 3)
    assert made.client_drift == 0, "how far answers lie apart is hidden"


@every
def test_sums_of_cohorts_are_joined(method: Exchange) -> None:
    of = method.assignment()
    question = method.asked(of)
    _, answers = method.answers(of, question, *COUNTS)
    words = words_of(method, "samples")
    total = method.coordinator.summing(of, question, 3)
    total.join(method.coordinator.from_words(of, question, words[0] + words[2], 2))
    total.add(answers[1].read(), answers[1].samples)
    expected = method.coordinator.combine(of, question, answers)
    assert method.coordinator.combine(of, question, total).aggregate == expected.aggregate


@every
def test_sums_that_no_answers_have_are_refused(method: Exchange) -> None:
    of = method.assignment()
    question = method.asked(of)
    words = reduce(np.add, words_of(method, "samples"))
    refused = method.coordinator.from_words
    with pytest.raises(ContributionError, match="words: uint64"):
        refused(of, question, words[1:], 3)
    with pytest.raises(ContributionError, match="words: 16 samples of 17 members"):
        refused(of, question, words, 17)
    large = words.copy()
    large[-1] = np.uint64(16 * 2**31)
    with pytest.raises(ContributionError, match="answers that weigh 16"):
        refused(of, question, large, 3)
    negative = words.copy()
    place = method.coordinator.frame(of, question).grid.variances
    negative[1 + next(iter(place.values())).start] = np.int64(-1).astype(np.uint64)
    with pytest.raises(ContributionError, match="variance"):
        refused(of, question, negative, 3)


def test_what_is_no_sum_of_integers_is_refused() -> None:
    moved = ROUNDS.assignment(upload="int16")
    with pytest.raises(MethodError, match="masks: answers of 'rounds' are not summed"):
        answer_words(moved, b"", 1)
    with pytest.raises(MethodError, match="masks: answers of 'fbl' are not summed behind masks"):
        answer_words(FBL.assignment(), b"", 1)
    with pytest.raises(MethodError, match="masks: header"):
        answer_words(ROUNDS.assignment(), b"none", 1)
