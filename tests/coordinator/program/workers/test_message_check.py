"""What an intake worker vouches for, and what it leaves to the coordinator."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.speed.contribution_rate.load import FLEET, Plan, make_messages
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.models.payload_check import (
    PayloadCheck,
    PayloadVerdict,
    settings_digest,
)
from fleetledger.coordinator.program.workers.frames import (
    CheckedBy,
    Committed,
    DeviceKey,
    FromWorker,
    frame_of,
    read_frame,
    read_told,
    told,
)
from fleetledger.coordinator.program.workers.worker import Checking
from fleetledger.coordinator.settings import CoordinatorSettings, MethodSection, write_new
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.methods.errors import ContributionError
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.envelope import Sender, compressed, decode, decode_again, encode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest

PLAN = Plan(1, devices=1, parts=2, window=1, map_width=8)
(DEVICE,) = PLAN.names
TOPICS = FleetTopics(FLEET)
TOPIC = TOPICS.up(DEVICE, "msg")
KEY, OTHER = (SigningKey.fresh(device_key_name(FLEET, DEVICE)) for _ in range(2))
BIRTH = Digest.of(b"the coordinator's birth")


@pytest.fixture(scope="module")
def lineage(tmp_path_factory: pytest.TempPathFactory) -> BackboneImported:
    home = tmp_path_factory.mktemp("home")
    method = MethodSection(settings={"map_width": PLAN.map_width, "form": "exact"})
    write_new(home, CoordinatorSettings(fleet=FLEET, method=method))
    preprocessing = Preprocessing(
        mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image"
    )
    (home / "pixels.onnx").write_bytes(scaling_backbone(preprocessing))
    (home / "pixels.json").write_text(preprocessing.model_dump_json(), encoding="utf-8")
    return prepare_backbone(home, home / "pixels.onnx", home / "pixels.json", trusted=True)


def sealed(
    lineage: BackboneImported, signer: SigningKey | None = KEY, spoil: bool = False
) -> bytes:
    """Return a contribution of the device, signed; a spoilt one has a payload of zeros."""
    ((message, _),) = make_messages(PLAN, lineage)
    envelope = decode(message)
    sender = Sender(FLEET, DEVICE, BootId.fresh(), signer=signer)
    attachment = bytes(len(envelope.attachment)) if spoil else envelope.attachment
    body = envelope.header.body
    if spoil:
        body = body | {"payload": Digest.of(attachment)}
    made = sender.seal(
        Contribution.read(body), sent_ms=0, attachment=attachment, refers_to=BIRTH, topic=TOPIC
    )
    return encode(made)


def checking(lineage: BackboneImported) -> Checking:
    made = Checking(TOPICS)
    made.learn(DeviceKey(DEVICE, KEY.verify_key))
    made.learn(CheckedBy(lineage.method, lineage.digest, lineage.settings))
    return made


def test_a_worker_says_which_key_signed_and_what_the_method_counts(
    lineage: BackboneImported,
) -> None:
    data = sealed(lineage)
    found = checking(lineage).found(FromWorker(3, TOPIC, data))
    assert found.key == KEY.verify_key
    envelope = decode(data)
    samples = PayloadCheck()(lineage.method, lineage.settings, envelope.attachment)
    settings = settings_digest(lineage.method, lineage.settings)
    assert found.verdict == PayloadVerdict(Digest.of(envelope.attachment), settings, samples)
    assert decode_again(found.payload) == envelope


def test_a_frame_that_came_compressed_is_handed_on_plain(lineage: BackboneImported) -> None:
    data = sealed(lineage, spoil=True)
    assert len(compressed(data)) < len(data)
    assert checking(lineage).found(FromWorker(0, TOPIC, compressed(data))).payload == data


def test_what_a_method_refuses_is_refused_in_the_methods_words(lineage: BackboneImported) -> None:
    found = checking(lineage).found(FromWorker(0, TOPIC, sealed(lineage, spoil=True))).verdict
    assert found is not None
    zeros = bytes(len(decode(sealed(lineage)).attachment))
    with pytest.raises(ContributionError) as refusal:
        PayloadCheck()(lineage.method, lineage.settings, zeros)
    assert found.fault == str(refusal.value)


@pytest.mark.parametrize("case", ["unsigned", "another key", "another topic", "cut", "no envelope"])
def test_what_a_worker_cannot_vouch_for_goes_on_as_it_came(
    lineage: BackboneImported, case: str
) -> None:
    signer = {"unsigned": None, "another key": OTHER}.get(case, KEY)
    data = sealed(lineage, signer)
    topic = TOPICS.up(DeviceId("lift-1"), "msg") if case == "another topic" else TOPIC
    data = {"cut": data[:-1], "no envelope": b"\xff" * 100}.get(case, data)
    message = FromWorker(0, topic, data)
    made = checking(lineage)
    made.learn(DeviceKey(DeviceId("lift-1"), KEY.verify_key))
    assert made.found(message) == message


def test_payloads_of_another_lineage_are_not_checked(lineage: BackboneImported) -> None:
    made = Checking(TOPICS)
    made.learn(DeviceKey(DEVICE, KEY.verify_key))
    made.learn(CheckedBy(lineage.method, Digest.of(b"another model"), lineage.settings))
    found = made.found(FromWorker(0, TOPIC, sealed(lineage)))
    assert found.key == KEY.verify_key
    assert found.verdict is None


@given(
    number=st.integers(0, 2**63),
    samples=st.dictionaries(st.sampled_from(["cat", "Käse", "犬"]), st.integers(0, 10**9)),
    fault=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    payload=st.binary(max_size=200),
    signed=st.booleans(),
    checked=st.booleans(),
)
def test_a_frame_is_read_as_it_was_written(
    number: int,
    samples: Mapping[str, int],
    fault: str,
    payload: bytes,
    signed: bool,
    checked: bool,
) -> None:
    counts = {ClassName(name): count for name, count in samples.items()}
    digest = Digest.of(payload)
    verdict = PayloadVerdict(digest, digest, counts, fault) if checked else None
    message = FromWorker(number, TOPIC, payload, KEY.verify_key if signed else None, verdict)
    assert read_frame(frame_of(message)) == message


@pytest.mark.parametrize(
    "word",
    [
        Committed([0, 7, 2**40]),
        DeviceKey(DEVICE, KEY.verify_key),
        CheckedBy("stsa", Digest.of(b"model"), {"map_width": 8, "ridge": [1.0]}),
    ],
)
def test_a_word_is_read_as_it_was_said(word: Committed | DeviceKey | CheckedBy) -> None:
    assert read_told(told(word)) == word
