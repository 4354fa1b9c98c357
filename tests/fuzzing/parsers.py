"""What reads bytes that came over the network, with good examples to spoil."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.update_forms import Upload
from fleetledger.runtime.errors import FleetledgerError, SchemaError
from fleetledger.schemas.bitpacking import PackedIntegers
from fleetledger.schemas.block_frames import read_block
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.envelope import compressed, decode, encode
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.keys import KeyName, SigningKey, VerifyKey, read_verify_key
from fleetledger.schemas.models import Manifest, Parity
from fleetledger.schemas.offers import BlockData, BlockRequest
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.seals import read_seal
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import ClassName, DeviceId, Digest, FleetId
from fleetledger.schemas.zstd_frames import framed
from fleetledger.transport.block_wire import BlockWire
from fleetledger.transport.interface import IncomingMessage
from tests.schemas.examples import DIGEST, EXAMPLES, PREPROCESSING, sender

FLEET = FleetId("harbour")
KEY = SigningKey.fresh(KeyName("harbour/coordinator"))
MODELS = {entry.kind: entry.model for entry in CATALOGUE}


@dataclass(frozen=True)
class Parser:
    """Reads bytes, or raises one of `refuses`; anything else is a fault."""

    read: Callable[[bytes], Any]
    good: tuple[bytes, ...]
    refuses: tuple[type[FleetledgerError], ...] = (SchemaError,)


def _envelope(data: bytes) -> None:
    """Read a message as agent and coordinator do; what is accepted has one spelling.

    A frame has many, but it is of the bytes that the header pins.
    """
    envelope = decode(data)
    whole = encode(envelope)
    assert whole == data or (len(data) < len(whole) and decode(whole) == envelope)
    seal, header = read_seal(data.partition(b"\n")[0]), envelope.header
    told = (seal.kind, seal.fleet, seal.sender, seal.boot, seal.sequence, seal.refers_to)
    assert told == (
        header.kind, header.fleet, header.sender, header.boot, header.sequence, header.refers_to
    )  # fmt: skip
    assert (seal.key, seal.signature) == (header.key, header.signature)
    model = MODELS.get(envelope.header.kind)
    if model is not None:
        body = envelope.read(model)
        assert model.read(body.model_dump(mode="json")) == body


def _blocks() -> Parser:
    topics, device = FleetTopics(FLEET), DeviceId("crane-7")
    coordinator = BlockWire(topics, sender(), None)
    agent = BlockWire(topics, sender(), device)
    request = BlockRequest(digest=DIGEST, block_size=65_536, section="data", indices=(0, 2))
    label = BlockData(digest=DIGEST, section="list", index=0)
    block = b"\x01" * 600
    data = agent.data(device, label, block, Digest.of(block))
    sent = (agent.request(device, request), data, replace(data, payload=compressed(data.payload)))

    def read(data: bytes) -> None:
        topic, _, payload = data.partition(b"\n")
        text = topic.decode("utf-8", "replace")
        coordinator.read(IncomingMessage(text, payload, qos=0, retained=False))
        frame = read_block(payload)
        if frame is not None:
            whole = decode(payload)
            assert (frame.label, frame.block) == (whole.read(BlockData), whole.attachment)

    return Parser(read, tuple(item.topic.encode() + b"\n" + item.payload for item in sent))


def _tensors(limit_bytes: int = 1 << 16) -> Parser:
    tensors = {
        "counts": np.arange(6, dtype=np.int64),
        "gram": PackedIntegers.pack(np.arange(-20, 20, dtype=np.int64), 7),
        "weights": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4),
    }
    expected = {
        "counts": Expected("int64", (UpTo(1000),)),
        "gram": Expected("packed", (UpTo(1000),)),
        "weights": Expected("float32", (UpTo(100), 4)),
    }
    told = {"form": "exact", "n": 3}
    zeros = {**tensors, "weights": np.zeros((90, 4), np.float32)}
    return Parser(
        lambda data: read_tensors(data, expected, limit_bytes),
        (encode_tensors(tensors, told), framed(encode_tensors(zeros, told)) or b""),
    )


def _answer(upload: Upload) -> Parser:
    random = np.random.default_rng(1)
    sent = {"body.weight": random.normal(size=(4, 5)).astype(np.float32)}
    moved = {name: array + np.float32(0.01) for name, array in sent.items()}
    frame = UpdateFrame(sent, upload)
    return Parser(frame.check, (frame.encode(moved), frame.encode(sent)), (ContributionError,))


def _manifest() -> Manifest:
    frozen = FileReference.of(b"frozen")
    return Manifest(
        version=3,
        method="stsa",
        lineage=frozen.digest,
        frozen=frozen,
        head=FileReference.of(b"head"),
        golden=FileReference.of(b"golden"),
        golden_scores=FileReference.of(b"scores"),
        class_names=(ClassName("cat"), ClassName("dog")),
        feature_width=1250,
        logit_scale=10.0,
        preprocessing=PREPROCESSING,
        parity=Parity(max_absolute_difference=1e-6, agreement=1.0, samples=8, runtime="any"),
        tolerance=0.05,
        ledger_index=41,
        created_ns=1,
    )


def _note(data: bytes) -> None:
    Checkpoint.read(data.decode("utf-8", "surrogateescape"), FLEET, [KEY.verify_key])


def _key(data: bytes) -> VerifyKey:
    return read_verify_key(data.decode("utf-8", "surrogateescape"))


def parsers() -> dict[str, Parser]:
    """Return every parser by name."""
    made = sender()
    messages = tuple(
        encode(replace(made.seal(body, sent_ms=1), attachment=b"")) for body in EXAMPLES
    )
    attached = encode(made.seal(EXAMPLES[0], sent_ms=1, attachment=bytes(2000)))
    checkpoint = Checkpoint(FLEET, 12, Digest.of(b"root"))
    return {
        "envelope": Parser(_envelope, (*messages, compressed(attached))),
        "block": _blocks(),
        "tensors": _tensors(),
        "large tensors": _tensors(1 << 23),
        "weights": _answer("int32"),
        "differences": _answer("int16"),
        "manifest": Parser(Manifest.read, (_manifest().canonical_bytes(),)),
        "checkpoint": Parser(_note, (checkpoint.signed(KEY).encode(),)),
        "key": Parser(_key, (KEY.verify_key.encode(),)),
    }
