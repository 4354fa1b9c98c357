"""Answers of weights with logits that are none: refused by name, before anything is added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.coordinator_phases import Averaging
from fleetledger.methods.dcid.logits import LOGITS
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.schemas.tensors import decode_tensors, encode_tensors
from tests.methods.dcid.making import ANT, BEE, Fleet, assignment, samples
from tests.methods.making import as_frame, given

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """A fleet of two sites that have answered to `distil` with weights and logits."""
    sites = {f"dev-{number}": samples(20, ANT, BEE, seed=number) for number in range(2)}
    found = Fleet(assignment(), sites)
    found.session(ANT, BEE)
    return found


def tensors_of(fleet: Fleet) -> dict:
    """The tensors of an honest answer."""
    payload = fleet.answers["dev-0"]
    frame = Averaging(fleet.of, fleet.question).frame
    answer, _ = frame.parts(payload)
    from fleetledger.schemas.tensors import Expected

    shape = (frame.logits.images, frame.logits.classes)
    expected = {"answer": Expected("uint8", (len(answer),)), LOGITS: Expected("int16", shape)}
    return decode_tensors(payload, expected, len(payload))


def refuse(fleet: Fleet, payload: bytes, told: str) -> None:
    with pytest.raises(ContributionError, match=told):
        COORDINATOR.check(fleet.of, payload, fleet.question)
    total = COORDINATOR.summing(fleet.of, fleet.question, 2)
    with pytest.raises(ContributionError, match=told):
        total.add(payload, 20)


def test_an_honest_answer_is_taken_packed_or_not(fleet):
    honest = encode_tensors(tensors_of(fleet))
    assert honest == fleet.answers["dev-0"]
    for payload in (honest, as_frame(honest)):
        COORDINATOR.check(fleet.of, payload, fleet.question)


def test_weights_of_another_shape_are_refused(fleet):
    tensors = tensors_of(fleet)
    cut = tensors["answer"][:-4]
    refuse(fleet, encode_tensors({**tensors, "answer": cut}), "answer: body")


def test_weights_that_are_no_file_are_refused(fleet):
    tensors = tensors_of(fleet)
    noise = np.arange(5000).astype(np.uint8)
    refuse(fleet, encode_tensors({**tensors, "answer": noise}), "answer: ")


def test_variances_below_zero_are_refused(fleet):
    tensors = tensors_of(fleet)
    frame = Averaging(fleet.of, fleet.question).frame.weights
    place = frame.grid.places["norm0.running_var"]
    values = frame.values(tensors["answer"].tobytes()).copy()
    values[place] = -1
    header = len(tensors["answer"]) - 4 * len(values)
    body = tensors["answer"].tobytes()[:header] + values.astype("<i4").tobytes()
    broken = {**tensors, "answer": np.frombuffer(body, np.uint8)}
    refuse(fleet, encode_tensors(broken), r"variance")


def test_logits_of_another_shared_set_are_refused(fleet):
    tensors = tensors_of(fleet)
    refuse(fleet, encode_tensors({**tensors, LOGITS: tensors[LOGITS][:-1]}), "logits: int16")


def test_logits_that_are_not_finite_are_refused(fleet):
    tensors = tensors_of(fleet)
    bad = np.full_like(tensors[LOGITS], 0x7C01)
    refuse(fleet, encode_tensors({**tensors, LOGITS: bad}), "finite")


def test_more_than_was_asked_for_is_refused(fleet):
    tensors = {**tensors_of(fleet), "images": np.zeros((3, 1, 8, 8), np.uint8)}
    refuse(fleet, encode_tensors(tensors), "images: unknown tensor")


def test_a_file_that_unpacks_to_much_more_is_refused(fleet):
    refuse(fleet, as_frame(bytes(1 << 27)), "at most")


def test_bytes_that_are_nothing_are_refused(fleet):
    refuse(fleet, b"", "answer")
    refuse(fleet, b"\x00" * 100, "answer")


def test_a_refused_answer_leaves_the_sum_as_it_was(fleet):
    total = COORDINATOR.summing(fleet.of, fleet.question, 2)
    bad = {**tensors_of(fleet), LOGITS: np.full((10, 2), 0x7C01, np.int16)}
    for site, payload in fleet.answers.items():
        if site == "dev-1":
            with pytest.raises(ContributionError):
                total.add(encode_tensors(bad), 20)
        total.add(payload, 20)
    made = COORDINATOR.combine(fleet.of, fleet.question, total)
    assert made.weights == fleet.made.weights


def test_weights_that_the_fleet_sent_are_of_its_network(fleet):
    question = replace(fleet.question, weights=b"another file")
    with pytest.raises(ContributionError, match="weights"):
        COORDINATOR.combine(fleet.of, question, [given(fleet.answers["dev-0"])])
    assert decode_weights(fleet.weights, fleet.of.network)[1] == (ANT, BEE)
