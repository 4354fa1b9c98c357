"""fleetledger's side: a cohort whose members and coordinator are function calls.

`python -m benchmarks.speed.masked_sums.own_side MEMBERS NUMBERS SILENT`.

A member signs what it joins with, checks all others against the root's roster, masks, seals its
shares, tells the seeds of the silent, and opens shares. The coordinator adds words up and takes
masks off. Messages are models, as on the wire, without envelopes and their transport.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from fleetledger.learning.privacy import masks, shares
from fleetledger.schemas.cohorts import (
    CohortAnswer,
    CohortMember,
    CohortReveal,
    DeviceRoster,
    Hex32,
    Joining,
    MaskedCohort,
    threshold_of,
)
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.values import DeviceId, Digest, FleetId

Found = TypeVar("Found")

FLEET = FleetId("masked")
LINEAGE = Digest.of(b"lineage")


@dataclass
class Member:
    """A device of the cohort."""

    device: DeviceId
    vector: masks.Words
    key: SigningKey = field(init=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    seconds: float = 0.0
    bytes_up: int = 0
    pairs: dict[DeviceId, masks.SharedSecret] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = SigningKey.fresh(device_key_name(FLEET, self.device))

    def join(self) -> CohortMember:
        """Say with which key its words will be masked."""
        self.mask_key = masks.own_key(self.secret, "1")
        joining = Joining(
            stage=1,
            part=0,
            lineage=LINEAGE,
            mask_key=Hex32(self.mask_key.public_key().public_bytes_raw().hex()),
            commitment=Digest(masks.commitment(self.vector, self.secret)),
        )
        signature = joining.signature(FLEET, self.device, self.key)
        return CohortMember(
            device=self.device, joining=joining, key=self.key.verify_key, signature=signature
        )

    def mask(self, cohort: MaskedCohort, roster: DeviceRoster) -> tuple[CohortAnswer, masks.Words]:
        """Check the others, mask the words, and seal the shares of its own mask."""
        for member in cohort.members:
            member.check(FLEET, roster)
            if member.device != self.device:
                public = member.joining.mask_key.raw
                self.pairs[member.device] = masks.SharedSecret.of(
                    self.mask_key, public, cohort.name
                )
        own = masks.derived(self.secret, f"own mask/{cohort.name}")
        dealt = shares.split(own, cohort.threshold, len(cohort.members))
        places = {device: place for place, device in enumerate(cohort.devices)}
        self.own_share = dealt[places[self.device]]
        sealed = {
            device: base64.b64encode(pair.seal(dealt[places[device]], self.device)).decode()
            for device, pair in self.pairs.items()
        }
        seeds = {places[device]: pair.seed for device, pair in self.pairs.items()}
        words = masks.mask(self.vector, places[self.device], seeds, own)
        return CohortAnswer(number=1, shares=sealed), words

    def seeds_of(self, silent: list[DeviceId]) -> CohortReveal:
        """Tell the seeds that it had in common with the silent."""
        return CohortReveal(number=1, seeds={of: Hex32(self.pairs[of].seed.hex()) for of in silent})

    def shares_of(self, sealed: dict[DeviceId, str]) -> CohortReveal:
        """Tell its shares of the own masks of those present."""
        told = {
            of: self.pairs[of].open(base64.b64decode(text), of).hex() for of, text in sealed.items()
        }
        return CohortReveal(number=1, shares={**told, self.device: self.own_share.hex()})


class Cohort:
    """Runs one, and measures each side."""

    def __init__(self, members: int, numbers: int, silent: int) -> None:
        self.members = [
            Member(DeviceId(f"dev-{place:03}"), np.arange(numbers, dtype=np.uint64) + place)
            for place in range(members)
        ]
        keys = {member.device: member.key.verify_key for member in self.members}
        self.roster = DeviceRoster(fleet=FLEET, keys=keys)
        self.present, self.silent = self.members[silent:], self.members[:silent]

    def run(self) -> tuple[masks.Words, float]:
        """Return the sum of those present, and the coordinator's seconds."""
        joined = [self._timed(member, member.join) for member in self.members]
        began = time.perf_counter()
        cohort = MaskedCohort(
            number=1,
            stage=1,
            lineage=LINEAGE,
            threshold=threshold_of(len(joined)),
            members=tuple(joined),
        )
        at_coordinator = time.perf_counter() - began
        total, answers = np.zeros(len(self.members[0].vector), np.uint64), {}
        for member in self.present:
            answer, words = self._timed(member, partial(member.mask, cohort, self.roster))
            member.bytes_up += words.nbytes + len(answer.model_dump_json())
            began = time.perf_counter()
            total += words
            at_coordinator += time.perf_counter() - began
            answers[member.device] = answer
        silent = [member.device for member in self.silent]
        seeds = [self._told(m, partial(m.seeds_of, silent)) for m in self.present if silent]
        told = [
            self._told(m, partial(m.shares_of, self._sealed_for(m, answers)))
            for m in self.present[: cohort.threshold]
        ]
        began = time.perf_counter()
        self._unmask(cohort, total, seeds, told)
        return total, at_coordinator + time.perf_counter() - began

    def _sealed_for(
        self, member: Member, answers: dict[DeviceId, CohortAnswer]
    ) -> dict[DeviceId, str]:
        return {
            of: answer.shares[member.device]
            for of, answer in answers.items()
            if of != member.device
        }

    def _unmask(
        self,
        cohort: MaskedCohort,
        total: masks.Words,
        seeds: list[CohortReveal],
        told: list[CohortReveal],
    ) -> None:
        places = {device: place for place, device in enumerate(cohort.devices)}
        revealers = [places[member.device] for member in self.present]
        own = [
            shares.joined(
                {
                    place + 1: bytes.fromhex(reveal.shares[member.device])
                    for place, reveal in zip(revealers, told, strict=False)
                }
            )
            for member in self.present
        ]
        missing = {
            places[member.device]: {
                place: reveal.seeds[member.device].raw
                for place, reveal in zip(revealers, seeds, strict=True)
            }
            for member in self.silent
        }
        masks.unmask(total, own, missing)

    def _told(self, member: Member, step: Callable[[], CohortReveal]) -> CohortReveal:
        reveal = self._timed(member, step)
        member.bytes_up += len(reveal.model_dump_json())
        return reveal

    @staticmethod
    def _timed(member: Member, step: Callable[[], Found]) -> Found:
        began = time.perf_counter()
        found = step()
        member.seconds += time.perf_counter() - began
        return found


def main() -> None:
    """Print seconds, bytes and the largest error as JSON."""
    members, numbers, silent = map(int, sys.argv[1:4])
    run = Cohort(members, numbers, silent)
    total, at_coordinator = run.run()
    expected = sum((member.vector for member in run.present), np.zeros(numbers, np.uint64))
    told = {
        "device_seconds": float(np.mean([member.seconds for member in run.members])),
        "server_seconds": at_coordinator,
        "bytes_up": float(np.mean([member.bytes_up for member in run.members])),
        "largest_error": float(np.abs((total - expected).view(np.int64)).max()),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
