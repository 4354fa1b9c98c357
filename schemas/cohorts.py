"""Masked cohorts: devices of which the coordinator gets the sum of what they give, and no more.

    joined      a device has something ready, and says with which key it will mask it
    formed      so many of them are a cohort; every member checks every other's key
    masked      each gives its words behind masks, as a `Contribution` with a `CohortAnswer`
    silent      some did not; the others tell the seeds that they had in common with these
    opening     nobody is missing any more; members tell the shares of masks of those present
    summed      the masks are off the sum, and off nothing else

`learning.privacy.masks` has the mathematics. A device tells of another either the seed that it had
in common with it, or a share of its own mask, and never both; and no share before `opening`, after
which nobody is silent any more.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import canonical_json, parse_json
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import SignatureText, SigningKey, VerifyKey
from fleetledger.schemas.message import Item, Items, Message, few
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proofs.entry import EntryProof
from fleetledger.schemas.rounds import RoundNumber
from fleetledger.schemas.values import ClassName, DeviceId, Digest, FleetId, ValidatedText

DOMAIN = "fleetledger/cohort/1"
LEAST_MEMBERS = 3
"""With two, each would know the other's numbers from the sum."""
MOST_MEMBERS = 64
MAX_ROSTER = 20_000
"""Devices that one roster names."""
MAX_LAYOUT_CLASSES = 2_000

CohortNumber = Annotated[int, Field(ge=1, lt=2**31)]
"""Counts the cohorts of a fleet."""
CohortStep = Literal["mask", "silent", "opening"]
Sealed = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{64,68}={0,2}$")]
"""Base64 of a share that one member sealed for another."""

ByMember = Annotated[dict[DeviceId, Item], Field(max_length=MOST_MEMBERS), few(MOST_MEMBERS)]
"""Something of each of a cohort's members."""


class Hex32(ValidatedText):
    """32 bytes in hexadecimal: a public key for masks, or a seed."""

    pattern = re.compile(r"[0-9a-f]{64}")
    rule = "64 lower-case hexadecimal digits"

    @property
    def raw(self) -> bytes:
        """The 32 bytes."""
        return bytes.fromhex(self)


class Joining(Strict):
    """What a member says of itself, and signs, so that the others can check it."""

    stage: int = Field(ge=1, lt=2**31)
    part: int = Field(ge=0, lt=2**31)
    """Number of the part that it will give; of an answer, the round's."""
    round: RoundNumber | None = None
    lineage: Digest
    mask_key: Hex32
    """Its public key of X25519 for this one cohort."""
    commitment: Digest
    """SHA-256 of its words and of a nonce: what it gave can be proven later, by itself alone."""
    serial: int = Field(default=1, ge=1, lt=2**31)
    """Counts what this installation joined for: a word with a lower one comes late."""
    undoes: CohortNumber | None = None
    """An earlier cohort of which its words take its own out again."""

    def signed_bytes(self, fleet: FleetId, device: DeviceId) -> bytes:
        """Return what is signed."""
        said = self.model_dump(mode="json")
        return canonical_json({"fleet": fleet, "device": device, "joining": said})

    def signature(self, fleet: FleetId, device: DeviceId, key: SigningKey) -> SignatureText:
        """Return the device's signature."""
        return SignatureText.of(key.sign(DOMAIN, self.signed_bytes(fleet, device)))


class CohortJoin(Message):
    """A device has a part, or an answer to a round, ready to be given in a cohort."""

    kind: ClassVar[str] = "cohort.join"
    joining: Joining
    signature: SignatureText | None = None
    """Of a device with a key."""


class CohortMember(Strict):
    """A member, with what tells the others that it is one."""

    device: DeviceId
    joining: Joining
    key: VerifyKey | None = None
    """The device's enrolled key; None where the fleet requires none."""
    signature: SignatureText | None = None

    def check(self, fleet: FleetId, roster: DeviceRoster | None) -> None:
        """Raise `SignatureError` unless its key signed what it joined with, and a root names it.

        Without a `roster` the coordinator's word is taken for the key.
        """
        if self.key is None or self.signature is None:
            if roster is not None:
                raise SignatureError(
                    f"member: {str(self.device)!r} has no key; the root of this device asks for one"
                )
            return
        self.key.check(self.signature.raw, DOMAIN, self.joining.signed_bytes(fleet, self.device))
        if roster is not None and roster.keys.get(self.device) != self.key:
            raise SignatureError(
                f"member: {str(self.device)!r} has a key that the root's roster does not name; "
                "the fleet's owner signs a new one with `fleetledger trust rotate --devices`"
            )


class MaskedCohort(Strict):
    """Who is summed, in the order of names, and what their words are."""

    number: CohortNumber
    stage: int = Field(ge=1, lt=2**31)
    round: RoundNumber | None = None
    lineage: Digest
    class_names: Items[ClassName] = Field(default=(), max_length=MAX_LAYOUT_CLASSES)
    """Classes of the words, in order; none for an answer to a round."""
    threshold: int = Field(ge=2, le=MOST_MEMBERS)
    """Members whose shares open the sum; fewer open nothing."""
    members: Items[CohortMember] = Field(min_length=LEAST_MEMBERS, max_length=MOST_MEMBERS)

    @model_validator(mode="after")
    def _is_a_cohort(self) -> Self:
        names = [member.device for member in self.members]
        if names != sorted(set(names)):
            raise ValueError("members: name each once, in the order of their names")
        if len({member.joining.mask_key for member in self.members}) < len(names):
            raise ValueError("members: two have one mask_key; each makes its own")
        keys = [member.key.public for member in self.members if member.key is not None]
        if len(set(keys)) < len(keys):
            raise ValueError("members: two have one key; each device has its own")
        if not threshold_of(len(names)) <= self.threshold <= len(names):
            raise ValueError(
                f"threshold: {self.threshold} of {count_of(len(names), 'member')}; give at least "
                f"{threshold_of(len(names))}"
            )
        for member in self.members:
            of = member.joining
            if (of.stage, of.round, of.lineage) != (self.stage, self.round, self.lineage):
                raise ValueError(f"members: {member.device} joined for something else")
        return self

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The members' names, in order; a member's place is its index here."""
        return tuple(member.device for member in self.members)

    @property
    def name(self) -> Digest:
        """SHA-256 of all that it is: seeds are bound to it."""
        return Digest.of(canonical_json(self.model_dump(mode="json")))

    @property
    def device(self) -> DeviceId:
        """The name under which the sum counts, as if one device had given it."""
        return cohort_device(self.number)


def threshold_of(members: int) -> int:
    """Return the least threshold t of a cohort: more than two thirds of its n members.

    Whatever each member is told of who is silent, with c members on its side the coordinator gets
    no sum of fewer than 2 t - n - c others (docs/masks.md).
    """
    return 2 * members // 3 + 1


_COHORT = re.compile(r"cohort-[0-9]+")


def cohort_device(number: int) -> DeviceId:
    """Return the name under which a cohort's sum counts; no device may be called so."""
    return DeviceId(f"cohort-{number}")


def is_cohort(device: str) -> bool:
    """Return whether a name is that of a cohort's sum."""
    return _COHORT.fullmatch(device) is not None


class CohortAnswer(Strict):
    """What goes with a member's masked words: its own mask in shares, sealed for each other."""

    number: CohortNumber
    shares: ByMember[Sealed] = Field(min_length=LEAST_MEMBERS - 1)


class CohortOrder(Strict):
    """What a cohort asks of a member, in its assignment."""

    cohort: MaskedCohort
    step: CohortStep
    proof: EntryProof | None = None
    """That the ledger holds `cohort.formed` with this cohort."""
    roster: Offer | None = None
    """The devices whose keys the root believes."""
    silent: Items[DeviceId] = Field(default=(), max_length=MOST_MEMBERS)
    """Members whose words are not in the sum."""
    shares: ByMember[Sealed] = Field(default_factory=dict)
    """At `opening`: what each member that is present sealed for this one."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        devices = set(self.cohort.devices)
        if not devices >= {*self.silent, *self.shares} or set(self.silent) & set(self.shares):
            raise ValueError("silent: and shares name members, and none of them in both")
        if len(devices) - len(self.silent) < self.cohort.threshold:
            raise ValueError(
                f"silent: {len(self.silent)} of {count_of(len(devices), 'member')}; the cohort "
                f"needs {self.cohort.threshold}"
            )
        return self


class CohortReveal(Message):
    """What a member tells of the others: seeds of the silent, or shares of those present."""

    kind: ClassVar[str] = "cohort.reveal"
    number: CohortNumber
    seeds: ByMember[Hex32] = Field(default_factory=dict)
    """The seed that it had in common with each silent member."""
    shares: ByMember[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{66}$")]] = Field(
        default_factory=dict
    )
    """Its share of the own mask of each member that is present, of its own too, hexadecimal."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.seeds) == bool(self.shares):
            raise ValueError("seeds: or shares, one of both")
        return self


class DeviceRoster(Strict):
    """The keys of the devices that the root believes to be devices; named there by its digest."""

    fleet: FleetId
    keys: dict[DeviceId, VerifyKey] = Field(max_length=MAX_ROSTER)

    def canonical_bytes(self) -> bytes:
        """Return the one form of it, of which the root has the digest."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def read(cls, data: bytes, digest: Digest) -> Self:
        """Return the roster of this digest; raise `SchemaError` for anything else."""
        if Digest.of(data) != digest:
            raise SchemaError(f"roster: is not {digest.short}, which the root names; fetch it anew")
        return cls.model_validate_json(canonical_json(parse_json(data)), strict=True)


def places(cohort: MaskedCohort, devices: Sequence[DeviceId]) -> tuple[int, ...]:
    """Return the places of members in the order of the cohort."""
    known = {device: place for place, device in enumerate(cohort.devices)}
    return tuple(known[device] for device in devices)


def sealed_bytes(sealed: Mapping[DeviceId, str]) -> dict[DeviceId, bytes]:
    """Return sealed shares as bytes; raise `SchemaError` for what is no base64."""
    try:
        return {of: base64.b64decode(text, validate=True) for of, text in sealed.items()}
    except binascii.Error as error:
        raise SchemaError(f"shares: {error}; give base64") from error
