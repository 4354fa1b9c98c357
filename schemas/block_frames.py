"""The envelope of a block, written and read without the objects in between.

A model on its way to a fleet is thousands of blocks, whose envelopes differ in a digest and three
numbers. The bytes are those of `schemas.envelope`, and what is accepted is what it accepts:

The laws: `write_block(…)` gives the bytes of `encode(sender.seal(label, attachment=block, …))`, and
what `read_block` returns is what `decode` and `Envelope.read` say of the same bytes, but for the
attachment's digest, which it does not compare: blocks are held to what was offered. Of anything
that is no unsigned block in canonical form `read_block` says nothing, and `decode` has to judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetledger.schemas.envelope import MAX_ATTACHMENT_BYTES, Sender, attached
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.offers import MAX_BLOCKS, BlockData
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from fleetledger.schemas.wire import SETTLED_VERSION

_DIGEST = Digest.pattern.pattern
_NUMBER = "0|[1-9][0-9]{0,17}"
_LINE = re.compile(
    (
        f'{{"attachment_digest":"({_DIGEST})","attachment_size":({_NUMBER})'
        f',"body":{{"digest":"({_DIGEST})","index":({_NUMBER}),"section":"(data|list)"}}'
        f',"boot":"{BootId.pattern.pattern}","fleet":"({FleetId.pattern.pattern})","key":null'
        rf',"kind":"block\.data","refers_to":null,"sender":"({DeviceId.pattern.pattern})"'
        f',"sent_ms":({_NUMBER}),"sequence":(?:{_NUMBER}),"signature":null'
        f',"version":{SETTLED_VERSION}}}\n'
    ).encode()
)


@dataclass(frozen=True, slots=True)
class BlockFrame:
    """A block as it arrived; nobody has hashed it."""

    fleet: FleetId
    sender: DeviceId
    label: BlockData
    block: bytes | memoryview
    sent_ms: int


def write_block(
    sender: Sender, label: BlockData, block: bytes, digest: Digest, *, sent_ms: int
) -> bytes:
    """Return what to publish for a block of at least one byte, whose SHA-256 is `digest`.

    Blocks are not signed: their hashes are in an offer that is.
    """
    sequence = sender.next_sequence
    sender.next_sequence += 1
    line = (
        f'{{"attachment_digest":"{digest}","attachment_size":{len(block)}'
        f',"body":{{"digest":"{label.digest}","index":{label.index},"section":"{label.section}"}}'
        f',"boot":"{sender.boot}","fleet":"{sender.fleet}","key":null'
        f',"kind":"block.data","refers_to":null,"sender":"{sender.name}"'
        f',"sent_ms":{sent_ms},"sequence":{sequence},"signature":null'
        f',"version":{SETTLED_VERSION}}}\n'
    )
    return line.encode() + block


def read_block(data: bytes) -> BlockFrame | None:
    """Return the block that is in `data`, or None where that is for `decode` to say."""
    found = _LINE.match(data)
    if found is None:
        return None
    _, size, whole, index, section, fleet, sender, sent_ms = found.groups()
    if not 0 < int(size) <= MAX_ATTACHMENT_BYTES:
        return None
    try:
        block = attached(memoryview(data)[found.end() :], int(size))
    except EnvelopeError:
        return None
    if len(block) != int(size):
        return None
    if int(index) >= MAX_BLOCKS:
        return None
    label = BlockData.model_construct(
        digest=Digest.known(whole.decode()),
        section="data" if section == b"data" else "list",
        index=int(index),
    )
    return BlockFrame(
        FleetId.known(fleet.decode()),
        DeviceId.known(sender.decode()),
        label,
        block,
        int(sent_ms),
    )
