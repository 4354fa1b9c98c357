"""A scenario, a data set and a seed make the plan of a fleet; nothing else decides it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.labels import Indices, Labels
from fleetledger.simulator.datasets.samples import SampleSet, domains_of
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.dealer import Dealer
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, Group, Renamed, StagePlan
from fleetledger.simulator.plan.groups import excluded_devices
from fleetledger.simulator.plan.plans import PLANS
from fleetledger.simulator.plan.presence import Presence, draw_presence
from fleetledger.simulator.plan.requests import PlanRequest
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.plan.rows import StageDeal
from fleetledger.simulator.plan.stage_notes import describe_excluded, describe_offline
from fleetledger.simulator.scenario.model import Scenario


def make_plan(scenario: Scenario, split: Split[SampleSet], seed: int) -> FleetPlan:
    """Return who gets which training sample when.

    The plan that `[stages]` names says which samples come with which stage, and to whom; drop-outs
    and delays are drawn. The same scenario, training part and seed give the same plan
    (`simulator.plan.streams` says how far). Raises `PlanError` where scenario and data set do not
    fit each other, and `PartitionError` where a stage cannot be dealt.
    """
    train, settings = split.train, scenario.devices
    plan = PLANS[scenario.stages.plan]
    dealer, roster = Dealer.of(settings.partition, train), Roster.of(settings)
    if dealer.most_devices is not None:
        roster = roster.limited_to(dealer.most_devices, scenario.stages.total)
    request = PlanRequest(train, scenario.stages, settings, roster, dealer, seed)
    deals = plan.deal(request, plan.check(scenario.stages.options), train.labels)
    seen, renaming = set[int](), _Renaming(train.labels)
    stages = []
    for number, deal in enumerate(deals, start=1):
        new = tuple(label for label in deal.classes if label not in seen)
        again = tuple(label for label in deal.classes if label in seen)
        seen.update(new)
        stages.append(_plan_stage(request, number, renaming.renamed(deal), (new, again)))
    domain_stages = _domain_stages(request, deals)
    return FleetPlan(seed, train.class_names, tuple(stages), renaming.made, domain_stages)


def device_id(number: int) -> DeviceId:
    """Return the name of a device, by its number from 1."""
    return DeviceId(f"device-{number}")


def device_stages(
    groups: Mapping[int, Group],
    shares: Mapping[int, Indices],
    presence: Mapping[int, Presence],
    excluded: Collection[int],
) -> dict[DeviceId, DeviceStage]:
    """Return what a stage is to each of its devices; one that is excluded is never online."""
    nothing = np.empty(0, np.int64)
    return {
        device_id(device): DeviceStage(
            indices=shares.get(device, nothing),
            group=group,
            online=presence[device].online and device not in excluded,
            delay_seconds=0.0 if device in excluded else presence[device].delay_seconds,
        )
        for device, group in groups.items()
    }


def _plan_stage(
    request: PlanRequest,
    number: int,
    deal: StageDeal,
    classes: tuple[tuple[int, ...], tuple[int, ...]],
) -> StagePlan:
    groups = request.groups(number)
    absent = [device for device in deal.shares if device not in groups]
    if absent:
        raise PlanError(
            f"devices.absences: device {absent[0]} is not there in stage {number}, and the plan "
            "gives it samples; let it be there, or give them to another"
        )
    presence = draw_presence(request.devices, list(groups), request.seed, number)
    excluded = excluded_devices(request.devices.groups, request.roster, groups)
    if number == 1 and not any(presence[k].online and len(got) for k, got in deal.shares.items()):
        raise PlanError(
            f"devices.dropout: with {request.devices.dropout} and seed {request.seed} every "
            "device with images is offline in stage 1, so there can be no first model; give a "
            "smaller dropout or another seed"
        )
    devices = device_stages(groups, deal.shares, presence, excluded)
    notes = (*deal.notes, describe_offline(devices.values()), describe_excluded(len(excluded)))
    new, again = classes
    return StagePlan(number, new, devices, tuple(told for told in notes if told), again)


class _Renaming:
    """Samples under other labels get indices beyond those of the data set, one for each pair."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._pairs: dict[tuple[int, int], int] = {}

    @property
    def made(self) -> Renamed | None:
        """Return them; None where there are none."""
        pairs = np.array(list(self._pairs), np.int64).reshape(-1, 2)
        return Renamed(pairs[:, 0], pairs[:, 1]) if len(pairs) else None

    def renamed(self, deal: StageDeal) -> StageDeal:
        """Return a stage by these indices, each device's ascending."""
        if deal.labels is None:
            return deal
        shares = {
            device: np.sort(
                [
                    self._index(pair)
                    for pair in zip(samples.tolist(), deal.labels[device].tolist(), strict=True)
                ]
            ).astype(np.int64)
            for device, samples in deal.shares.items()
        }
        return StageDeal(deal.classes, shares, notes=deal.notes)

    def _index(self, pair: tuple[int, int]) -> int:
        sample, label = pair
        if self._labels[sample] == label:
            return sample
        return self._pairs.setdefault(pair, len(self._labels) + len(self._pairs))


def _domain_stages(
    request: PlanRequest, deals: Sequence[StageDeal]
) -> Mapping[tuple[int, str], int]:
    """Return the stage that first brings each class in each domain; nothing without domains."""
    domains, first = domains_of(request.train), dict[tuple[int, str], int]()
    if domains is None and all(deal.domains is None for deal in deals):
        return first
    for number, deal in enumerate(deals, start=1):
        for device, samples in deal.shares.items():
            labels = request.labels[samples] if deal.labels is None else deal.labels[device]
            names = [""] * len(samples)
            if domains is not None:
                names = [domains.names[place] for place in domains.of_sample[samples]]
            if deal.domains is not None:
                told = zip(deal.domains[device], names, strict=True)
                names = [given or known for given, known in told]
            for label, name in dict.fromkeys(zip(labels.tolist(), names, strict=True)):
                if name:
                    first.setdefault((label, name), number)
    return first
