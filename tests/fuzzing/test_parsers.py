"""Bytes from the network are read or refused in words: spoiled messages, and any others."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.__main__ import outcome, tried
from tests.fuzzing.mutations import MUTATIONS, spoiled
from tests.fuzzing.parsers import Parser, parsers
from tests.fuzzing.worst import ORDINARY, limit

PARSERS = parsers()
NAMES = sorted(PARSERS)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_good_is_accepted(name: str) -> None:
    assert all(outcome(PARSERS[name], data) for data in PARSERS[name].good)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300)
@given(seed=st.integers(0, 2**63))
def test_what_was_spoiled_is_read_or_refused(name: str, seed: int) -> None:
    tried(PARSERS[name], spoiled(Random(seed), PARSERS[name].good))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=200)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_refused(name: str, data: bytes) -> None:
    assert not outcome(PARSERS[name], data)


def test_an_input_that_takes_too_long_is_told() -> None:
    def reads(_: bytes) -> None:
        for _ in range(3 * round(limit(4))):
            json.loads(ORDINARY)

    slow = Parser(reads, ())
    with pytest.raises(TimeoutError, match="4 bytes took"):
        tried(slow, b"slow")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda item: item.__name__)
def test_every_mutation_changes_something(mutation: object) -> None:
    good = PARSERS["envelope"].good
    assert callable(mutation)
    assert any(mutation(Random(seed), good[0], good) != good[0] for seed in range(20))
