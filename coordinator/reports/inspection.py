"""Which devices harm the others' model, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from fleetledger.coordinator.core.phrases import some
from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.runtime.strict import Strict

_MOST = 0.7
"""Share of judges from which on a class is named as worse."""
_APART = 2.5
"""Times the usual distance from which on a class is named as unlike."""
_NAMED = 3
"""Classes that a sentence names."""


class InspectedClass(Strict):
    """What a device does to one of its classes: `harmed` of `judges` are worse off by it."""

    name: str
    harmed: int
    judges: int
    harm: float
    """Mean change of a judge's squared error per image; above zero for the worse."""
    flagged: bool
    """Whether this class alone tells that the device harms."""
    distance: float
    """Times the usual distance of its mean from the others'; zero where nobody can tell."""

    @property
    def words(self) -> str:
        """Return the class with its judges, as in "class 3 on 11 of 14 others"."""
        return f"class {self.name} worse on {_of_others(self.harmed, self.judges)}"


class InspectedDevice(Strict):
    """A device, or a group that can only be judged as one, and what it does to the others."""

    name: Annotated[str, Column("device")]
    images: Annotated[int, Column("images")]
    verdict: Annotated[Literal["harms", "unlike", "no harm", "not judged"], Column("verdict")]
    harmed: int
    """Others whose error on its classes is larger with it."""
    judges: int
    """Others that judge it."""
    harm: float
    """Mean change of a judge's squared error per image; above zero for the worse."""
    distance: float
    """Times the usual distance of its classes from the others'; zero where nobody can tell."""
    classes: tuple[InspectedClass, ...]
    """Its classes that enough others have."""
    unjudged: tuple[str, ...]
    """Its classes that too few others have to judge them."""
    camp: Literal[1, 2] | None
    """Its camp, where the fleet has two."""
    sentence: Annotated[str, Column("what it does", last=True)]


class InspectionReport(Report):
    """What `ledger inspect` shows."""

    lines_field: ClassVar[str | None] = "devices"
    titles: ClassVar[Mapping[str, str]] = {"devices": ""}
    ledger_size: int
    """Entries of the ledger that was inspected."""
    stage: int | None
    """The stage whose parts alone were inspected; null for all that counts."""
    lineage: str
    """Digest of the frozen model that the parts were made on."""
    devices: tuple[InspectedDevice, ...]
    """The most harmful first."""
    warnings: tuple[str, ...]
    """Why the verdicts are not certain; empty where evidence is clear."""
    unread: tuple[str, ...]
    """Parts that cannot be read, and why."""
    passes: int
    """Times that the fleet was judged, each without those that were flagged before."""
    seconds: float

    @property
    def harmful(self) -> tuple[str, ...]:
        """Names of those that harm."""
        return self._named("harms")

    @property
    def unlike(self) -> tuple[str, ...]:
        """Names of those whose classes are not those of the others, though they harm nobody."""
        return self._named("unlike")

    def _named(self, verdict: str) -> tuple[str, ...]:
        return tuple(one.name for one in self.devices if one.verdict == verdict)

    @property
    def answer(self) -> str:
        """The answer in a sentence."""
        judged = sum(one.verdict != "not judged" for one in self.devices)
        if not judged:
            return "Nobody can be judged."
        bad, other = self.harmful, self.unlike
        found = [f"{some(bad)} {agree(len(bad), 'harms', 'harm')} the model"] if bad else []
        if other:
            found.append(f"{some(other)} {agree(len(other), 'is', 'are')} unlike the others")
        if not found:
            return f"No harm seen of {count_of(judged, 'device')}."
        return f"{'; '.join(found)}, of {count_of(judged, 'device')} that could be judged."

    def above(self) -> Iterator[str]:
        """Return the answer and what is not certain of it."""
        yield self.answer
        yield from self.warnings

    def below(self) -> Iterator[str]:
        """Return what could not be read, and the way out."""
        yield from self.unread
        if self.harmful or self.unlike:
            yield (
                "Nothing was changed. `fleetledger ledger retract DEVICE --reason TEXT` takes out "
                "what a device gave."
            )


def sentence_of(one: InspectedDevice) -> str:
    """Return what a device does to the others, in a sentence."""
    lacking = ""
    if one.unjudged:
        are = agree(len(one.unjudged), "class", "classes")
        lacking = f"; too few others have {are} {some(one.unjudged)} to judge it there"
    if one.verdict == "not judged":
        if not one.images:
            return "gave no images that count"
        few = agree(one.judges, "is", "are")
        return f"{count_of(one.judges, 'other')} can judge it, which {few} too few{lacking}"
    if one.verdict == "unlike":
        far = sorted(one.classes, key=lambda c: -c.distance)[:_NAMED]
        names = [c.name for c in far if c.distance > _APART]
        whose = f"{agree(len(names), 'class', 'classes')} {some(names)}" if names else "its classes"
        return f"{whose} {_times(one.distance)} as far from the others' as usual{lacking}"
    if one.verdict == "no harm":
        return f"helps {_of_others(one.judges - one.harmed, one.judges)}{lacking}"
    worse = [c for c in one.classes if c.flagged or c.harmed > _MOST * c.judges]
    worse = sorted(worse, key=lambda c: (not c.flagged, -c.harm))[:_NAMED]
    if not worse:
        return f"makes {_of_others(one.harmed, one.judges)} worse{lacking}"
    return f"makes {', '.join(c.words for c in worse)}{lacking}"


def _times(distance: float) -> str:
    return (f"{distance:.2g}" if distance < 10 else f"{distance:.0f}") + " times"


def _of_others(count: int, of: int) -> str:
    return f"{count} of {count_of(of, 'other')}"
