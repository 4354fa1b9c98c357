"""What a proxy remembers, and the changes to it: each is one thing that the store writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from schemas.contributions import PartKey
from schemas.proxy import Scored
from schemas.receipts import Accepted, Refused
from schemas.values import DeviceId, Digest

Final: TypeAlias = Accepted | Refused


@dataclass(frozen=True)
class Name:
    """Names a letter with gradients without its device; repeats have the same."""

    key: PartKey
    payload: Digest


@dataclass(frozen=True)
class Letter:
    """Gradients of a device: here, then answered, then used."""

    name: Name
    device: DeviceId | None
    """Who gets the receipt; forgotten when no receipt is due and no score."""
    method: str
    lineage: Digest
    size: int
    """Bytes that still lie here; 0 once they were used or refused."""
    answer: Final | None = None
    """None until an order has told what the gradients should look like."""


@dataclass(frozen=True)
class ScoredOrder:
    """The last order that was scored, and what came of it."""

    answer: Scored
    key: PartKey
    """Stage and round of the order; the coordinator's receipt names it."""
    lineage: Digest
    weights: Digest
    task: int
    """Stage whose pictures lie in the pool; 0 before any."""


@dataclass
class Records:
    """All of it, but for the bytes: payloads of letters, and the method's state."""

    letters: dict[Name, Letter] = field(default_factory=dict)
    scored: ScoredOrder | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes of gradients that lie here."""
        return sum(letter.size for letter in self.letters.values())


@dataclass(frozen=True)
class LetterKept:
    """Gradients came; nothing is acknowledged yet."""

    letter: Letter
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class LetterAnswered:
    """Gradients were checked. Of those that are refused neither bytes nor device stay."""

    name: Name
    answer: Final


@dataclass(frozen=True)
class OrderScored:
    """A model was scored; of the gradients that it took neither bytes nor devices stay."""

    scored: ScoredOrder
    state: bytes = field(repr=False)
    used: tuple[Name, ...]


Change: TypeAlias = "LetterKept | LetterAnswered | OrderScored"


def apply(records: Records, change: Change) -> None:
    """Bring the records in memory up to a change that is on the disk."""
    match change:
        case LetterKept(letter):
            records.letters[letter.name] = letter
        case LetterAnswered(name, answer):
            letter = records.letters[name]
            accepted = isinstance(answer, Accepted)
            records.letters[name] = Letter(
                name,
                letter.device if accepted else None,
                letter.method,
                letter.lineage,
                letter.size if accepted else 0,
                answer,
            )
        case OrderScored(scored, _, used):
            records.scored = scored
            for name in used:
                old = records.letters[name]
                records.letters[name] = Letter(name, None, old.method, old.lineage, 0, old.answer)
