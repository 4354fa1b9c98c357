"""Signed checkpoints: a note says which log it is about, and only known keys count."""

from __future__ import annotations

import base64

import pytest

from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from fleetledger.schemas.values import Digest, FleetId

FLEET = FleetId("orchard")
COORDINATOR = SigningKey.fresh(KeyName("orchard/coordinator"))
WITNESS = SigningKey.fresh(KeyName("witness.example"))
CHECKPOINT = Checkpoint(FLEET, 1234, Digest("ab" * 32))
NOTE = CHECKPOINT.signed(COORDINATOR)


def read(note: str, fleet: FleetId = FLEET) -> Checkpoint:
    return Checkpoint.read(note, fleet, [COORDINATOR.verify_key])


def test_a_note_is_laid_out_as_signed_notes_are() -> None:
    lines = NOTE.split("\n")
    root = base64.b64encode(bytes.fromhex("ab" * 32)).decode()
    assert lines[:4] == ["fleetledger/orchard", "1234", root, ""]
    name, blob = lines[4].removeprefix("— ").split(" ")
    raw = base64.b64decode(blob)
    assert (name, raw[:4]) == ("orchard/coordinator", COORDINATOR.verify_key.key_hash)
    COORDINATOR.verify_key.check(raw[4:], "", "\n".join(lines[:3]).encode() + b"\n")


def test_a_note_is_read_back() -> None:
    assert read(NOTE) == CHECKPOINT


def test_the_lines_of_unknown_witnesses_are_passed_over() -> None:
    assert read(CHECKPOINT.signed(WITNESS, COORDINATOR)) == CHECKPOINT


def test_a_note_that_only_a_stranger_signed_is_refused() -> None:
    with pytest.raises(SignatureError, match="not signed by 'orchard/coordinator'"):
        read(CHECKPOINT.signed(WITNESS))


def test_a_stranger_with_the_coordinators_name_is_refused() -> None:
    with pytest.raises(SignatureError, match="not signed by"):
        read(CHECKPOINT.signed(SigningKey.fresh(COORDINATOR.name)))


def test_the_note_of_another_fleet_is_refused() -> None:
    with pytest.raises(SignatureError, match="another log"):
        read(NOTE, FleetId("vineyard"))


def test_any_change_of_the_text_is_refused() -> None:
    for altered in (
        NOTE.replace("1234", "1235"),
        NOTE.replace("1234", "01234"),
        NOTE.replace("q6ur", "q6us", 1),
        NOTE.replace("orchard\n", "orchard \n"),
        NOTE.replace("\n\n", "\nmore\n\n"),
    ):
        assert altered != NOTE
        with pytest.raises(SignatureError):
            read(altered)


def test_every_changed_bit_of_a_note_is_refused() -> None:
    data = NOTE.encode()
    for place in range(8 * len(data)):
        altered = bytearray(data)
        altered[place // 8] ^= 1 << place % 8
        with pytest.raises(SignatureError):
            read(altered.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "size", ["-1", "1e3", "12 34", "9" * 20, "٣"], ids=lambda size: f"size {size}"
)
def test_a_signed_size_that_is_no_number_is_refused(size: str) -> None:
    with pytest.raises(SignatureError, match="size"):
        read(signed(CHECKPOINT.text.replace("1234", size)))


def signed(text: str) -> str:
    """A note that the coordinator signed, whatever it says."""
    blob = COORDINATOR.verify_key.key_hash + COORDINATOR.sign("", text.encode())
    return f"{text}\n— {COORDINATOR.name} {base64.b64encode(blob).decode()}\n"


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n\n",
        "text",
        CHECKPOINT.text,
        CHECKPOINT.text + "\n",
        CHECKPOINT.text + "\n— nobody\n",
        CHECKPOINT.text + "\n— orchard/coordinator AAAA\n",
        CHECKPOINT.text + "\n— orchard/coordinator !!!\n",
        CHECKPOINT.text + "\norchard/coordinator AAAAAAAA\n",
        NOTE.rstrip("\n"),
        NOTE.replace("—", "-"),
        NOTE + "x" * MAX_NOTE_BYTES,
    ],
    ids=range(12),
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(SignatureError):
        read(note)


def test_a_shortened_signature_is_refused() -> None:
    line = NOTE.split("\n")[4]
    blob = line.split(" ")[2]
    short = base64.b64encode(base64.b64decode(blob)[:-1]).decode()
    with pytest.raises(SignatureError, match="63 bytes"):
        read(NOTE.replace(blob, short))
