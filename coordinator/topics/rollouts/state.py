"""What the state knows of rollouts: plans, groups, who belongs to them, and what they reported.

A device is a member for as long as what it is to run, or to compare, is an offer of the rollout:
whoever gets a version of its own, is pinned or shut out is none, and whoever comes later falls in
by its place. Who is not done of the phase that is open is kept from entry to entry, so that a
report costs the same in a small fleet and in a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fleetledger.coordinator.core.entry import EntryContext
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.topics.devices.state import DevicesState
from fleetledger.coordinator.topics.keys.state import KeysState
from fleetledger.coordinator.topics.models.offers import GroupOffer
from fleetledger.coordinator.topics.models.state import ModelsState
from fleetledger.coordinator.topics.releases.state import Trust
from fleetledger.coordinator.topics.rollouts.entries import RolloutMeasured, RolloutPlanned
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.scope import GateKey, Scope
from fleetledger.coordinator.topics.stages.state import Reported
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.rollouts import Mode, ModelComparison
from fleetledger.schemas.values import DeviceId

RolloutStage = Literal[
    "planned",
    "approved",
    "running",
    "soaking",
    "paused",
    "rolled_back",
    "finished",
    "aborted",
    "superseded",
]
NOT_BEGUN: tuple[RolloutStage, ...] = ("planned", "approved")
BEGUN: tuple[RolloutStage, ...] = ("running", "soaking", "paused")
"""Stages of which one rollout at a time is in."""
OPEN = (*NOT_BEGUN, *BEGUN)
"""Stages in which something is still to come."""


@dataclass
class GroupMember:
    """A device that a rollout has offered its candidate, and what it answered to that."""

    group: int
    mode: Mode
    compared: bool = False
    """In any phase."""
    alone: bool = False
    """It has nothing to compare the candidate with."""
    runs: bool = False
    settled: bool = False
    failures: int = 0
    """In this phase."""
    failed_ns: int | None = None
    """When it failed last; None where it has not, or has come to run it since."""
    failed_index: int = -1
    """The entry of that."""
    unreached: bool = False
    """It was away for long, and the group does without it."""


@dataclass(frozen=True)
class Turn:
    """A stage that a rollout came to, and the entry that says so."""

    stage: RolloutStage
    index: int
    time_ns: int


@dataclass(frozen=True)
class PhaseOpened:
    """A group was let go, to measure the candidate or to run it."""

    group: int
    mode: Mode
    below: int
    index: int
    time_ns: int


@dataclass(frozen=True)
class Pardon:
    """Gates, some of them of a class, that a person let it go on in spite of."""

    index: int
    failed: frozenset[GateKey]
    unsure: frozenset[GateKey]
    """Those that were inconclusive: for the group that was open alone."""


@dataclass
class Phase:
    """The devices of a group measure the candidate, or run it."""

    group: int
    mode: Mode
    below: int
    opened_ns: int
    action: int | None = None
    """The entry that offers it."""
    out_ns: int | None = None
    """When devices were told; with a root, once a release key has signed."""
    since_ns: int = 0
    """From when its deadline counts."""
    waiting: set[DeviceId] = field(default_factory=set)
    """Members that are not done."""
    passed_ns: int | None = None
    """When its gates passed."""

    def is_of(self, group: GroupOffer | None) -> bool:
        """Whether an offer is for this phase, of the same rollout."""
        return group is not None and (group.group, group.mode) == (self.group, self.mode)


@dataclass
class Rollout:
    """A rollout from its plan to its end."""

    planned: RolloutPlanned
    turns: list[Turn]
    begins_ns: int | None = None
    """When it begins; None before it was started."""
    approved: dict[int, int] = field(default_factory=dict)
    """Groups that a person lets go, with the entry of that."""
    opened: list[PhaseOpened] = field(default_factory=list)
    """All phases, oldest first."""
    verdicts: list[int] = field(default_factory=list)
    """Entries of them."""
    absences: list[int] = field(default_factory=list)
    """Entries that name devices which it does without."""
    pardons: list[Pardon] = field(default_factory=list)
    phase: Phase | None = None
    """The newest one."""
    members: dict[DeviceId, GroupMember] = field(default_factory=dict)
    left: dict[DeviceId, GroupMember] = field(default_factory=dict)
    """Devices that were members, and may be again."""
    evidence: Evidence = field(default_factory=Evidence)
    last: RolloutMeasured | None = None
    """The newest verdict."""

    @property
    def number(self) -> int:
        """Which one it is."""
        return self.planned.rollout

    @property
    def index(self) -> int:
        """The entry that plans it."""
        return self.turns[0].index

    @property
    def stage(self) -> RolloutStage:
        """How it stands."""
        return self.turns[-1].stage

    @property
    def entries(self) -> list[int]:
        """The entries that it is made of, without what devices said."""
        found = {
            *(turn.index for turn in self.turns),
            *(phase.index for phase in self.opened),
            *self.approved.values(),
            *self.verdicts,
            *self.absences,
        }
        return sorted(found)

    def forgiven(self, before: int = 2**63) -> tuple[frozenset[GateKey], frozenset[GateKey]]:
        """Return gates that failed, and such that were inconclusive, which count no more.

        A person let it go on in spite of them, by entries below an index.
        """
        pardons = [one for one in self.pardons if one.index < before]
        since = max((one.index for one in self.opened if one.index < before), default=0)
        failed = (one.failed for one in pardons)
        unsure = (one.unsure for one in pardons if one.index > since)
        return frozenset[GateKey]().union(*failed), frozenset[GateKey]().union(*unsure)

    def scope(self, group: int, mode: Mode, before: int = 2**63) -> Scope:
        """Return what a verdict on a phase of a group has to know, by entries below an index."""
        forgiven, overlooked = self.forgiven(before)
        return Scope(
            group=group,
            mode=mode,
            members=len(self.members),
            classes=self.planned.classes,
            devices=self.planned.devices,
            judges=self.planned.judges,
            forgiven=forgiven,
            overlooked=overlooked,
        )

    def turn(self, stage: RolloutStage, at: EntryContext) -> None:
        """Come to a stage."""
        self.turns.append(Turn(stage, at.index, at.time_ns))

    def end(self, stage: RolloutStage, at: EntryContext) -> None:
        """End it; nobody waits any more."""
        self.turn(stage, at)
        if self.phase is not None:
            self.phase.waiting.clear()

    def hears_of(self, version: int) -> int | None:
        """Return from which entry on statuses of a version belong to it; None where none do."""
        if version == self.planned.version:
            return self.index
        if version == self.planned.former and self.stage == "rolled_back":
            return self.turns[-1].index
        return None


@dataclass
class RolloutsState:
    """All rollouts; one at most is active."""

    devices: DevicesState = field(repr=False, compare=False)
    """A part before this one, to read from, as are the following three."""
    keys: KeysState = field(repr=False, compare=False)
    models: ModelsState = field(repr=False, compare=False)
    trust: Trust = field(repr=False, compare=False)
    by_number: dict[int, Rollout] = field(default_factory=dict)
    active: Rollout | None = None
    """The one that was started last, for as long as it has not ended."""
    learned: int | None = None
    """The newest version that the fleet has learned and that waits to go out by itself."""
    compared: dict[DeviceId, dict[PartKey, Reported]] = field(default_factory=dict)
    """Comparisons by rollout and number of the comparison."""

    @property
    def next_number(self) -> int:
        """The number of the next rollout."""
        return max(self.by_number, default=0) + 1

    def heard(self, number: int) -> list[tuple[int, int, int]]:
        """Return of which versions statuses belong to a rollout, and behind and before which entry.

        They belong to the newest rollout of the version, or that went back to it.
        """
        planned, found = self.by_number[number].planned, []
        for version in filter(None, (planned.version, planned.former)):
            since = self.by_number[number].hears_of(version)
            if since is not None:
                later = (self.by_number[n].hears_of(version) for n in self.by_number if n > number)
                until = min((one for one in later if one is not None), default=2**63 - 1)
                found.append((version, since, until))
        return found

    def heard_by(self, version: int, index: int) -> int | None:
        """Return the rollout that a status of a version belongs to, by its entry."""
        since = ((n, self.by_number[n].hears_of(version)) for n in self.by_number)
        return max((n for n, one in since if one is not None and one < index), default=None)

    def comparison(self, device: DeviceId, key: PartKey) -> Reported | None:
        """Return what a device reported under a key."""
        return self.compared.get(device, {}).get(key)

    def comparison_fault(self, device: DeviceId, comparison: ModelComparison) -> str | None:
        """Return why a comparison counts for nothing, or None where it counts.

        Counted is the first one of a member of an opened group, of the candidate that it was
        offered with another model of the fleet, on classes of either.
        """
        rollout = self.active
        if rollout is None or rollout.number != comparison.rollout:
            return f"rollout: {comparison.rollout} is not open"
        member = rollout.members.get(device)
        if member is None or comparison.group > member.group:
            return f"group: {comparison.group} of rollout {rollout.number} does not ask this device"
        if comparison.candidate_version != rollout.planned.version:
            return f"candidate_version: {comparison.candidate_version} is not what was offered"
        if device in rollout.evidence.comparisons:
            return (
                f"comparison: this device has compared in rollout {rollout.number}; the first "
                "comparison counts"
            )
        return self._models_fault(comparison)

    def _models_fault(self, comparison: ModelComparison) -> str | None:
        pairs = (
            ("active", comparison.active_version, comparison.active),
            ("candidate", comparison.candidate_version, comparison.candidate),
        )
        names = []
        for field_name, version, manifest in pairs:
            model = self.models.by_version.get(version)
            if model is None or model.exported is None:
                return f"{field_name}_version: {version} is no model of this fleet"
            if model.exported.manifest.digest != manifest:
                return f"{field_name}: {manifest.short} is not the manifest of model {version}"
            names.append(frozenset(model.made.class_names))
        if comparison.active_version == comparison.candidate_version:
            return f"active_version: {comparison.active_version} is the candidate itself"
        if strange := sorted(set(comparison.classes) - (names[0] | names[1])):
            return f"classes: {some(strange)}; neither of the two models knows them"
        if set(comparison.new_classes) != set(comparison.classes) - names[0]:
            return "new_classes: are not the classes that the active model does not know"
        return None

    def offer_of(self, device: DeviceId) -> GroupOffer | None:
        """Return what the active rollout offers a device; None where it is no member."""
        if self.active is None or self.keys.of(device).revoked:
            return None
        known = self.devices.admitted.get(device)
        if known is None or not known.led:
            return None
        desired = self.models.desired_for(device)
        if desired is None or desired.group is None:
            return None
        return desired.group if desired.group.rollout == self.active.number else None

    def review(self, device: DeviceId) -> None:
        """See whether a device is a member of the active rollout, and whether it is done."""
        rollout = self.active
        if rollout is None:
            return
        offer = self.offer_of(device)
        if offer is None:
            if device in rollout.members:
                rollout.left[device] = rollout.members.pop(device)
        else:
            member = rollout.members.get(device) or rollout.left.pop(device, None)
            rollout.members[device] = _offered(offer, member)
        if rollout.phase is not None:
            if self._is_awaited(rollout, rollout.phase, device):
                rollout.phase.waiting.add(device)
            else:
                rollout.phase.waiting.discard(device)

    def _is_awaited(self, rollout: Rollout, phase: Phase, device: DeviceId) -> bool:
        member = rollout.members.get(device)
        if member is None or (member.group, member.mode) != (phase.group, phase.mode):
            return False
        return not (member.unreached or self._is_done(rollout, device, member))

    def _is_done(self, rollout: Rollout, device: DeviceId, member: GroupMember) -> bool:
        if member.failed_ns is not None:
            return member.failures > rollout.planned.plan.retries
        measured = member.compared or member.alone or rollout.planned.former is None
        if member.mode == "shadow":
            return measured
        return measured and member.settled


def _offered(offer: GroupOffer, former: GroupMember | None) -> GroupMember:
    """Return the member that is offered this phase; what it measured in another one counts."""
    if former is None:
        return GroupMember(offer.group, offer.mode)
    if (former.group, former.mode) == (offer.group, offer.mode):
        return former
    return GroupMember(offer.group, offer.mode, compared=former.compared, alone=former.alone)
