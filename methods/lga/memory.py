"""What a device remembers between rounds: its looks, its exemplars, and what the proxy has of it.

A file with the tensors `digests` (n, 32), the exemplars class by class with the best first, and
`met`, the images that were trained; its metadata hold everything else. The images themselves stay
where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import Field

from fleetledger.learning.numerics.conformal import BINS
from fleetledger.methods.lga.detection import MOST_CHECKS, NoveltyHistory
from fleetledger.methods.lga.gradients_due import GradientsDue, Names
from fleetledger.methods.training.exemplar_lists import renamed_lists
from fleetledger.methods.training.kept_files import (
    DIGEST_ROWS,
    DIGESTS,
    Listed,
    listed,
    lists_of,
    read_kept,
)
from fleetledger.methods.training.met_samples import MET, MET_ROWS, MetSamples, met_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.rounds import MAX_HEAD_CLASSES, Observation
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, Digest

_LARGEST_FILE = 1 << 28


class _Facts(Strict):
    """The metadata of the file."""

    round: int = Field(ge=0, lt=2**31)
    observation: Observation | None
    tasks: int = Field(ge=0, lt=2**31)
    stage: int = Field(ge=0, lt=2**31)
    rows: Names = Field(max_length=MAX_HEAD_CLASSES)
    history: tuple[float, ...] = Field(max_length=MOST_CHECKS)
    levels: tuple[int, ...] = Field(default=(), max_length=BINS)
    entered: bool
    withheld: bool = False
    sent: Names = Field(max_length=MAX_HEAD_CLASSES)
    classes: tuple[Listed, ...] = Field(max_length=MAX_HEAD_CLASSES)
    met: tuple[Listed, ...] = Field(default=(), max_length=MAX_HEAD_CLASSES)


@dataclass(frozen=True)
class Memory:
    """What is known before the first round is nothing."""

    round: int = 0
    """The round of the last look."""
    observation: Observation | None = None
    """What that look found."""
    looks: NoveltyHistory = field(default_factory=NoveltyHistory)
    gradients: GradientsDue = field(default_factory=GradientsDue)
    exemplars: Mapping[ClassName, tuple[Digest, ...]] = field(default_factory=dict)
    """Of classes of earlier tasks; the best come first."""
    met: MetSamples = field(default_factory=MetSamples)
    """Images that were trained, with the stage in which they were new."""

    def observed_in(self, number: int) -> Observation | None:
        """Return what the look of a round found; None where there was none."""
        return self.observation if self.round == number else None

    @property
    def stored(self) -> int:
        """Number of exemplars."""
        return sum(map(len, self.exemplars.values()))

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> Memory:
        """Return the memory under the names that classes have now."""
        rows = tuple(dict.fromkeys(aliases.get(name, name) for name in self.looks.rows))
        return replace(
            self,
            looks=replace(self.looks, rows=rows),
            gradients=self.gradients.renamed(aliases),
            exemplars=renamed_lists(self.exemplars, aliases),
            met=self.met.renamed(aliases),
        )

    def kept(self, is_there: Callable[[ClassName, Digest], bool]) -> Memory:
        """Return the memory without exemplars whose image is gone or has another class now."""
        lists = {
            name: tuple(digest for digest in digests if is_there(name, digest))
            for name, digests in self.exemplars.items()
        }
        return replace(self, exemplars={name: item for name, item in lists.items() if item})

    def with_exemplars(
        self, chosen: Mapping[ClassName, tuple[Digest, ...]], per_class: int
    ) -> Memory:
        """Return the memory with the lists of more classes, all of them cut to `per_class`."""
        lists = {name: item[:per_class] for name, item in {**self.exemplars, **chosen}.items()}
        return replace(self, exemplars={name: item for name, item in lists.items() if item})

    def write(self) -> bytes:
        """Return the memory as bytes."""
        (classes, rows), looks, gradients = listed(self.exemplars), self.looks, self.gradients
        met, met_rows = self.met.written()
        facts = _Facts(
            round=self.round,
            observation=self.observation,
            tasks=looks.tasks,
            stage=looks.stage,
            rows=looks.rows,
            history=looks.history,
            levels=looks.levels,
            entered=gradients.entered,
            withheld=gradients.withheld,
            sent=gradients.sent,
            classes=classes,
            met=met,
        )
        return encode_tensors({DIGESTS: rows, MET: met_rows}, facts.model_dump(mode="json"))


def read_memory(data: bytes | None) -> Memory:
    """Return a memory; the empty one for None. Raises `MethodError` for another file."""
    if data is None:
        return Memory()
    facts, tensors = read_kept(
        "memory", data, {DIGESTS: DIGEST_ROWS, MET: MET_ROWS}, _Facts, _LARGEST_FILE
    )
    return Memory(
        round=facts.round,
        observation=facts.observation,
        looks=NoveltyHistory(facts.tasks, facts.stage, facts.rows, facts.history, facts.levels),
        gradients=GradientsDue(facts.entered, facts.withheld, facts.sent),
        exemplars=lists_of("exemplars", facts.classes, tensors[DIGESTS]),
        met=met_of(facts.met, tensors[MET]),
    )
