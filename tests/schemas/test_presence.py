"""What births, deaths, heartbeats and welcomes promise."""

import json
import subprocess
import sys
from typing import Any

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.envelope import MAX_HEADER_BYTES, encode
from fleetledger.schemas.presence import MAX_HELD_PARTS, Birth, Death, Welcome
from tests.schemas.examples import BOOT, DIGEST, EXAMPLES, sender

BIRTH = EXAMPLES[0].model_dump(mode="json")


def test_a_birth_names_what_the_device_can_run() -> None:
    assert Birth.read(BIRTH).capabilities.features == {"numpy", "onnxruntime"}


def test_equal_births_have_equal_bytes_in_every_process() -> None:
    # Sets of text are ordered by a hash that differs from process to process.
    program = "from tests.schemas.examples import EXAMPLES; print(EXAMPLES[0].model_dump_json())"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1
    assert json.loads(texts.pop())["capabilities"]["features"] == ["numpy", "onnxruntime"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"installation": "me"}, "installation: 'me': BootId: 'me' is not allowed; give 16 lower"),
        ({"active_version": 0}, "active_version: 0: "),
        ({"outbox_length": -1}, "outbox_length: -1: "),
        ({"capabilities": {}}, r"capabilities\.agent_version: is missing"),
        ({"seen_checkpoint": {"size": 1}}, r"seen_checkpoint\.root: is missing"),
    ],
)
def test_a_wrong_birth_is_refused_by_field_and_value(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SchemaError, match=f"birth: {told}"):
        Birth.read({**BIRTH, **changes})


def test_endless_features_are_refused() -> None:
    many = {**BIRTH["capabilities"], "features": [f"f{i}" for i in range(65)]}
    with pytest.raises(SchemaError, match=r"capabilities\.features: .* at most 64 items"):
        Birth.read({**BIRTH, "capabilities": many})


def test_a_death_needs_no_words() -> None:
    assert Death.read({}).reason == "connection lost"


def test_a_full_welcome_fits_an_envelope() -> None:
    held = {"key": {"stage": 2**31 - 1, "part": 2**31 - 1}, "revision": 9, "payload": DIGEST}
    fields = {"boot": BOOT, "held": [held] * MAX_HELD_PARTS, "more": True, "next_part": 0}
    full = Welcome.read(fields)
    assert len(encode(sender().seal(full, sent_ms=0))) <= MAX_HEADER_BYTES
    with pytest.raises(SchemaError, match=r"welcome: held: .* at most 500 items"):
        Welcome.read({**fields, "held": [held] * (MAX_HELD_PARTS + 1)})
