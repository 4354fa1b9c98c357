"""The envelope of a block in one piece, beside the one that is put together of objects."""

from __future__ import annotations

import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.schemas.block_frames import read_block, write_block
from fleetledger.schemas.envelope import Sender, compressed, decode, encode
from fleetledger.schemas.offers import BlockData, Section
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId

WHOLE = Digest.of(b"whole")


def sender(sequence: int = 3) -> Sender:
    return Sender(FleetId("mill-2"), DeviceId("Cam_1"), BootId("0123456789abcdef"), sequence)


def written(block: bytes = b"block\n\x00", index: int = 7) -> bytes:
    label = BlockData(digest=WHOLE, section="data", index=index)
    return write_block(sender(), label, block, Digest.of(block), sent_ms=1_800_000_000_000)


@given(
    block=st.binary(min_size=1, max_size=300),
    index=st.integers(0, 131_071),
    section=st.sampled_from(["data", "list"]),
    sent_ms=st.integers(0, 10**17),
    sequence=st.integers(0, 10**17),
)
def test_it_is_byte_for_byte_the_envelope_and_reads_the_same(
    block: bytes, index: int, section: Section, sent_ms: int, sequence: int
) -> None:
    label = BlockData(digest=WHOLE, section=section, index=index)
    one, other = sender(sequence), sender(sequence)

    data = write_block(one, label, block, Digest.of(block), sent_ms=sent_ms)

    assert data == encode(other.seal(label, sent_ms=sent_ms, attachment=block))
    assert one == other
    frame, envelope = read_block(data), decode(data)
    assert frame is not None
    assert (frame.fleet, frame.sender) == (envelope.header.fleet, envelope.header.sender)
    assert frame.label == envelope.read(BlockData)
    assert bytes(frame.block) == envelope.attachment


def test_a_block_that_travels_as_a_frame_is_the_same_block() -> None:
    data = written(bytes(4096))
    sent = compressed(data)
    assert len(sent) < len(data) - 4000
    assert read_block(sent) == read_block(data)


def test_a_frame_of_more_than_the_block_is_none() -> None:
    line = written(bytes(4096)).partition(b"\n")[0]
    for content in (bytes(1 << 20), bytes(4097), bytes(4095)):
        assert read_block(line + b"\n" + zstandard.compress(content)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"index":7', b'"index":07'),
        (b'"index":7', b'"index":131072'),
        (b'"index":7', b'"index": 7'),
        (b'"index":7', b'"index":7,"more":1'),
        (b'"section":"data"', b'"section":"date"'),
        (b'"kind":"block.data"', b'"kind":"blockXdata"'),
        (b'"attachment_size":7', b'"attachment_size":8'),
        (b'"version":1', b'"version":2'),
        (b'"key":null', b'"key":"x"'),
        (b"block\n\x00", b""),
        (b'{"attachment', b' {"attachment'),
    ],
)
def test_of_anything_else_it_says_nothing(old: bytes, new: bytes) -> None:
    data = written()
    assert data.count(old) == 1
    assert read_block(data) is not None
    assert read_block(data.replace(old, new)) is None


@given(at=st.integers(0, 600), to=st.integers(0, 255))
def test_it_accepts_nothing_that_the_envelope_refuses_but_for_the_digest(at: int, to: int) -> None:
    data = bytearray(written())
    data[at % len(data)] = to
    frame = read_block(bytes(data))
    if frame is not None:
        line, _, block = bytes(data).partition(b"\n")
        claimed = json.loads(line)["attachment_digest"].encode()
        line = line.replace(claimed, Digest.of(block).encode(), 1)
        envelope = decode(line + b"\n" + block)
        assert frame.label == envelope.read(BlockData)
        assert bytes(frame.block) == envelope.attachment
