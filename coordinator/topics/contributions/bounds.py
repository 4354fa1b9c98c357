"""What one device may weigh: how many samples of a class it gives in a stage, and what share.

What a device says of its samples is what its statistics weigh, and nobody can check it. The rules:

- The same payload counts once: of several parts of a device that have it, the first does. The
  others are held and left out, not refused, since a part that came late from an earlier
  installation may hold what the present one gives under another number, and is replaced then.
- Of one class in one stage a device gives no more samples than `max_samples_per_class`; a part
  beyond it is refused.
- Where `share_from_devices` or more give a class in a stage, none of them weighs more than
  `max_share` of it: so many of its parts are left out of the sum until others give more. They are
  held, and the ledger says which. A device's first part of a stage always counts, so nobody is
  left out whole, and a class that few give is bounded by nothing.
- In a round of so many answers none weighs more than `max_round_share` of the mean: it counts as
  if it had fewer samples.

What is left out depends on what is held and on these settings, never on the order in which it came;
it is an entry, so that a model is a function of the ledger alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.rules import BoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.contributions import entries
from fleetledger.coordinator.topics.contributions.state import CountedPart, CountedParts
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.runtime.count_words import agree
from fleetledger.schemas.cohorts import is_cohort
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import ClassName, DeviceId, Digest

_Class = tuple[int, ClassName]
"""A class in a stage."""


class Bounds:
    """Decides what one device may weigh."""

    def __init__(self, rules: BoundRules, state: State) -> None:
        self._rules = rules
        self._state = state
        self._weighed_size: int | None = None

    def fault(self, device: DeviceId, body: Contribution) -> str | None:
        """Say why a contribution is more than a device may give; None if it is not."""
        if body.round is not None:
            return self._beyond_most(body, {})
        before = self._state.contributions.counted.samples(device, body.lineage, body.key.stage)
        if sum(body.samples.values()) + sum(before.values()) <= self._rules.max_samples_per_class:
            return None
        if self._beyond_most(body, self._resolved(before)) is None:
            return None
        return self._beyond_most(body, self._given(device, body))

    def _beyond_most(self, body: Contribution, before: Mapping[ClassName, int]) -> str | None:
        """Say of which class a device gives too much, if so, with what it gave before."""
        most = self._rules.max_samples_per_class
        for name, samples in body.samples.items():
            given = samples + before.get(self._state.classes.resolve(name), 0)
            if given > most:
                return (
                    f"samples: {given} of class {str(name)!r} of this device in stage "
                    f"{body.key.stage} exceed {most}; the operator sets [bounds] "
                    "max_samples_per_class"
                )
        return None

    def due(self) -> Decision:
        """Record which parts are left out of the sum, where that has changed."""
        lineage = self._state.lineages.current
        if lineage is None or self._weighed_size == self._state.size:
            return Decision()
        self._weighed_size = self._state.size
        wanted, told = self._left_out(lineage.digest)
        body = self._changed(lineage.digest, wanted, told)
        if body is None:
            return Decision()
        texts = (text for text in body.devices.values() if text)
        return record(body) + ask(*map(TellOperator, texts))

    def _changed(
        self, lineage: Digest, wanted: Mapping[int, DeviceId], told: Mapping[DeviceId, str]
    ) -> entries.ContributionsLeftOut | None:
        """Return what changes, as much as one entry has room for; None for nothing."""
        given, counted = self._state.contributions, self._state.contributions.counted
        has = {i: who for i, who in counted.left_out.items() if counted[i].lineage == lineage}
        moved = {**wanted, **has}
        devices = {moved[index] for index in wanted.keys() ^ has.keys()}
        devices |= given.bounded.keys() - told.keys()
        devices = set(sorted(devices)[: entries.MAX_TOLD])
        if not devices:
            return None
        out = sorted(i for i in wanted.keys() - has.keys() if wanted[i] in devices)
        again = sorted(i for i in has.keys() - wanted.keys() if has[i] in devices)
        return entries.ContributionsLeftOut(
            left_out=tuple(out[: entries.MAX_MOVED]),
            again=tuple(again[: entries.MAX_MOVED]),
            devices={device: told.get(device, "") for device in sorted(devices)},
        )

    def weights(self, current: Round) -> dict[int, int]:
        """Return the answers of a round that count as fewer samples, by entry.

        What a cohort's members weigh is in their sum.
        """
        if any(item.members > 1 for item in current.answers.values()):
            return {}
        samples = {item.index: item.samples for item in current.answers.values()}
        if len(samples) < self._rules.share_from_devices:
            return {}
        total = sum(samples.values())
        share = self._rules.max_round_share
        most = {index: _most(share, total - own) for index, own in samples.items()}
        return {index: max(1, most[index]) for index, own in samples.items() if own > most[index]}

    def _given(self, device: DeviceId, body: Contribution) -> dict[ClassName, int]:
        """Return what a device gave in the stage of a part, beside what it has or replaces.

        This looks at all parts of the device.
        """
        given = Counter[ClassName]()
        for key, part in self._state.contributions.of(device).parts.items():
            if key.stage != body.key.stage or key == body.key or part.payload == body.payload:
                continue
            counted = self._state.contributions.counted.get(part.index)
            if counted is not None and counted.lineage == body.lineage:
                given.update(counted.samples)
        return self._resolved(given)

    def _resolved(self, samples: Mapping[ClassName, int]) -> dict[ClassName, int]:
        """Return samples under the names that classes have now."""
        found: dict[ClassName, int] = defaultdict(int)
        for name, count in samples.items():
            found[self._state.classes.resolve(name)] += count
        return found

    def _left_out(self, lineage: Digest) -> tuple[dict[int, DeviceId], dict[DeviceId, str]]:
        """Return the entries to leave out, and what is said of each device that gave them."""
        counted = self._state.contributions.counted
        repeated, told = _repeated(counted, lineage)
        beyond, of_shares = self._beyond_shares(lineage, repeated)
        for device, text in of_shares.items():
            told[device] = f"{told[device]}; {text}" if device in told else text
        return {index: counted[index].device for index in repeated | beyond}, told

    def _beyond_shares(
        self, lineage: Digest, repeated: set[int]
    ) -> tuple[set[int], dict[DeviceId, str]]:
        """Return the entries beyond the shares of their devices, with a sentence for each.

        This goes through what devices gave by stage, and through the parts of a device in a stage
        where it is beyond its share.
        """
        totals = self._totals(lineage, repeated)
        if len({device for given in totals.values() for device in given}) < (
            self._rules.share_from_devices
        ):
            return set(), {}
        most = {
            (of, device): _most(self._share_of(device), sum(given.values()) - own)
            for of, given in totals.items()
            if len(given) >= self._rules.share_from_devices
            for device, own in given.items()
        }
        over: dict[DeviceId, set[int]] = defaultdict(set)
        for (of, device), n in most.items():
            if totals[of][device] > n:
                over[device].add(of[0])
        left_out: set[int] = set()
        told = {}
        for device in sorted(over):
            gave = self._gave(device, lineage, over[device], repeated)
            out = self._beyond(gave, {of: n for (of, who), n in most.items() if who == device})
            if out:
                left_out |= out
                told[device] = self._said(device, totals, most, (len(out), len(gave)))
        return left_out, told

    def _share_of(self, device: DeviceId) -> float:
        """Return the most that a device weighs, of a cohort's sum what its members may together."""
        if not is_cohort(device):
            return self._rules.max_share
        parts = self._state.contributions.of(device).held_parts()
        counted = self._state.contributions.counted
        known = self._state.contributions.of(device).parts
        members = max(counted[known[part.key].index].members for part in parts)
        return min(1.0, self._rules.max_share * members)

    def _gave(
        self, device: DeviceId, lineage: Digest, stages: set[int], repeated: set[int]
    ) -> dict[int, CountedPart]:
        counted = self._state.contributions.counted
        indices = (counted.of_stage[device, lineage, stage] for stage in sorted(stages))
        return {i: counted[i] for of_one in indices for i in of_one if i not in repeated}

    def _totals(self, lineage: Digest, repeated: set[int]) -> dict[_Class, dict[DeviceId, int]]:
        counted = self._state.contributions.counted
        totals: dict[_Class, dict[DeviceId, int]] = defaultdict(lambda: defaultdict(int))
        for (device, of_lineage, stage), given in counted.given.items():
            if of_lineage == lineage:
                for name, samples in self._resolved(given).items():
                    totals[stage, name][device] += samples
        for index in repeated:
            item = counted[index]
            for of, samples in self._classes(item).items():
                totals[of][item.device] -= samples
        return {
            of: held
            for of, given in totals.items()
            if (held := {device: n for device, n in given.items() if n})
        }

    def _classes(self, item: CountedPart) -> dict[_Class, int]:
        return {(item.key.stage, name): n for name, n in self._resolved(item.samples).items()}

    def _beyond(self, gave: Mapping[int, CountedPart], most: Mapping[_Class, int]) -> set[int]:
        """Return the parts of a device beyond what it may weigh, in the order of their numbers."""
        counted: dict[_Class, int] = defaultdict(int)
        begun: set[int] = set()
        out = set()
        for index, item in sorted(
            gave.items(), key=lambda pair: (pair[1].key.stage, pair[1].key.part)
        ):
            samples = self._classes(item)
            fits = all(of not in most or counted[of] + n <= most[of] for of, n in samples.items())
            if item.key.stage in begun and not fits:
                out.add(index)
                continue
            begun.add(item.key.stage)
            for of, n in samples.items():
                counted[of] += n
        return out

    def _said(
        self,
        device: DeviceId,
        totals: Mapping[_Class, Mapping[DeviceId, int]],
        most: Mapping[tuple[_Class, DeviceId], int],
        parts: tuple[int, int],
    ) -> str:
        beyond = {of: totals[of][who] - n for (of, who), n in most.items() if who == device}
        of = max(beyond, key=lambda of: (beyond[of], of))
        stage, name = of
        given, total = totals[of][device], sum(totals[of].values())
        return (
            f"device {device} gave {given} of {count_of(total, 'sample')} of class {name} in "
            f"stage {stage}, "
            f"more than its share: {parts[0]} of its {count_of(parts[1], 'part')} "
            f"{agree(parts[0], 'is', 'are')} left out "
            f"until "
            "others give more, or you raise [bounds] max_share"
        )


def _repeated(counted: CountedParts, lineage: Digest) -> tuple[set[int], dict[DeviceId, str]]:
    """Return the entries whose payload another part of their device has, before them."""
    repeated: dict[DeviceId, set[int]] = defaultdict(set)
    for (device, _), indices in counted.copies.items():
        keys = {i: counted[i].key for i in indices if counted[i].lineage == lineage}
        in_order = sorted(keys, key=lambda i: (keys[i].stage, keys[i].part))
        if later := in_order[1:]:
            repeated[device].update(later)
    told = {
        device: f"device {device} gave the same payload under several numbers: "
        f"{count_of(len(indices), 'part')} of it left out, since the images count already"
        for device, indices in sorted(repeated.items())
    }
    return {index for indices in repeated.values() for index in indices}, told


def _most(share: float, others: int) -> int:
    """Return how many samples are at most the share of one, beside those of others."""
    return int(share * others / (1 - share)) if share < 1 else 2**62
