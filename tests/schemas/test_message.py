"""What every message promises, whatever its kind."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import Message, explain
from fleetledger.schemas.presence import Heartbeat, PresenceMessage
from tests.schemas.examples import EXAMPLES

COUNTERS = {
    "welcomed": True,
    "outbox_length": 1,
    "waiting_images": 2,
    "resident_bytes": 3,
    "bytes_up": 4,
    "bytes_down": 5,
}


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: f"{body.kind}")
def test_a_message_reads_back_from_its_json(body: Message) -> None:
    assert type(body).read(body.model_dump(mode="json")) == body


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: f"{body.kind}")
def test_an_unknown_field_is_refused_in_every_message_but_those_of_presence(body: Message) -> None:
    if isinstance(body, PresenceMessage):
        assert type(body).read({**body.model_dump(mode="json"), "colour": "red"}) == body
        return
    with pytest.raises(SchemaError, match=f"{body.kind}: colour: 'red': unknown here"):
        type(body).read({**body.model_dump(mode="json"), "colour": "red"})


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: f"{body.kind}")
def test_a_message_cannot_be_changed(body: Message) -> None:
    for field in type(body).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(body, field, None)


@pytest.mark.parametrize("value", ["5", 5.0, True, None, [5]])
def test_nothing_is_converted_on_the_way_in(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"heartbeat: bytes_up: .*: Input should be a valid int"):
        Heartbeat.read({**COUNTERS, "bytes_up": value})


def test_a_body_that_is_no_json_is_refused() -> None:
    with pytest.raises(SchemaError, match="nan is no number"):
        Heartbeat.read({**COUNTERS, "bytes_up": float("nan")})


def test_the_first_faults_are_told_and_the_rest_counted() -> None:
    with pytest.raises(SchemaError) as refusal:
        Heartbeat.read({})
    assert str(refusal.value) == (
        "heartbeat: welcomed: is missing; give it; outbox_length: is missing; give it; "
        "waiting_images: is missing; give it; and 3 more"
    )


def test_a_fault_deep_inside_is_told_with_its_path() -> None:
    class Inner(Strict):
        weights: tuple[float, ...]

    class Outer(Strict):
        layers: dict[str, Inner]

    with pytest.raises(ValidationError) as refusal:
        Outer.model_validate({"layers": {"head": {"weights": [1.0, float("inf")]}}})
    told = explain(refusal.value)
    assert told == "layers.head.weights.1: inf: Input should be a finite number"


@pytest.fixture
def _quick_switches() -> Iterator[None]:
    seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(seconds)


@pytest.mark.usefixtures("_quick_switches")
def test_threads_that_use_a_model_first_at_once_read_the_same() -> None:
    class Part(Strict):
        weights: dict[str, list[float]]

    class Whole(Strict):
        part: Part
        parts: tuple[Part, ...] = ()

    part = {"weights": {"a": [1.0]}}
    together = Barrier(8)

    def read(_: int) -> dict[str, Any]:
        together.wait()
        return Whole.model_validate({"part": part, "parts": [part]}).model_dump()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(read, range(8)))
    assert found == [{"part": part, "parts": (part,)}] * 8
