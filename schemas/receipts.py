"""Receipts: the only acknowledgement that counts.

An acknowledgement of the broker says that the broker has the message, not that anyone received
it. A device keeps a contribution in its outbox until a receipt for its key and revision arrives.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.proofs.consistency import ConsistencyProof
from fleetledger.schemas.proofs.entry import EntryProof
from fleetledger.schemas.values import Digest

RETRACTED = "retracted: "
"""How the reason of a refusal begins that is due to a retraction."""


ENTRY_OF = {
    "contribution": "contribution.accepted",
    "withdrawal": "contribution.withdrawn",
    "nothing": "nothing.reported",
    "transition": "transition.reported",
    "comparison": "model.compared",
    "cohort-join": "cohort.joined",
    "cohort-reveal": "cohort.revealed",
}
"""The kind of ledger entry that a device's letter becomes, by what its receipt is about."""


class Accepted(Strict):
    """In the ledger; final."""

    answer: Literal["accepted"] = "accepted"
    ledger_index: int = Field(ge=0)
    proof: EntryProof | None = None
    """That the entry is in the ledger, as the coordinator's key signed it."""
    grown: ConsistencyProof | None = None
    """That the ledger which the device has seen last is the beginning of this one."""


class Refused(Strict):
    """Will never be accepted as it is; final. The device moves it to its dead letters."""

    answer: Literal["refused"] = "refused"
    reason: str = Field(max_length=500)
    retracted: bool = False
    """The operator took this part out of the sum, also where it was accepted before: it is not to
    be given again, under no revision and no number."""


class Later(Strict):
    """Not now; send it again after some seconds."""

    answer: Literal["later"] = "later"
    after_seconds: float = Field(gt=0, le=3600)
    reason: str = Field(default="", max_length=500)


Answer = Annotated[Accepted | Refused | Later, Field(discriminator="answer")]


class Receipt(Message):
    """The answer to a message that a device or the proxy keeps until it has one.

    The coordinator's; of gradients, the proxy's.
    """

    kind: ClassVar[str] = "receipt"
    about: Literal[
        "contribution",
        "withdrawal",
        "nothing",
        "transition",
        "comparison",
        "cohort-join",
        "cohort-reveal",
        "gradients",
        "scored",
    ]
    key: PartKey
    """For 'nothing' the part is 0, or the round it is about; for a transition its number; for
    a comparison its number, with the rollout's as stage; for gradients the round in which they were
    made, and for a score that of the order it answers. For 'cohort-join' as it joined; for
    'cohort-reveal' the part is the cohort's number, with 1 as stage for seeds and 2 for shares."""
    revision: int = Field(default=0, ge=0, lt=2**31)
    payload: Digest | None = None
    """Of the contribution that is answered: an earlier installation of the device may have given
    another one under the same key."""
    answer: Answer
