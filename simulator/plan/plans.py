"""Plans by name: which samples come with which stage, and to whom.

    classes      every class with one stage, and all its samples with it
    blurry       a share of every class's samples in a stage beside its own
    repetition   classes come back, each time with other samples of theirs
    domains      every stage brings all classes in another domain of the data set
    own-orders   every device has an order of its own in which the classes come to it
    rows         rows of a file

A plan of one's own is a function of `(data, stages, devices, random)` that returns such rows:
stage, device, sample, and if wanted label and domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.simulator.datasets.labels import Indices, Labels
from fleetledger.simulator.datasets.samples import domains_of
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.classes_plan import deal_classes
from fleetledger.simulator.plan.plan_files import read_plan_file
from fleetledger.simulator.plan.plan_table import PLANS, Plan, deal_rows, options_of
from fleetledger.simulator.plan.requests import PlanRequest
from fleetledger.simulator.plan.rows import StageDeal
from fleetledger.simulator.plan.shares import part_of
from fleetledger.simulator.plan.stages import divide_classes
from fleetledger.simulator.plan.streams import random_stream

__all__ = ["PLANS"]


class PlanOptions(Strict):
    """Options of every plan of ours."""

    long_tail: float | None = Field(default=None, ge=1)
    """How many times as many training samples the first class has as the last; between them the
    numbers fall by equal factors. Left out, all samples are used."""
    label_noise: float = Field(default=0.0, ge=0, lt=1)
    """Share of every device's samples of a stage that have the label of another of its classes."""


class BlurryOptions(PlanOptions):
    """Options of `blurry`."""

    share: float = Field(default=0.2, ge=0, lt=1)
    """Share of every class's samples that come with another stage than the class's own."""
    reach: Literal["neighbours", "any"] = "neighbours"
    """Stages that they come with: the one before or after, or any other."""


class RepetitionOptions(PlanOptions):
    """Options of `repetition`."""

    again: float = Field(default=0.5, ge=0, le=1)
    """Probability with which a class comes back in each later stage."""


class DomainOptions(PlanOptions):
    """Options of `domains`."""

    order: Literal["as-is", "seeded"] = "as-is"
    """In which order domains come: as the data set names them, or shuffled by the run's seed."""


def thinned(labels: Labels, order: Sequence[int], ratio: float | None) -> Labels:
    """Return labels in which samples are left out (-1), so that classes get fewer in an order."""
    if ratio is None:
        return labels
    kept, last = np.full(len(labels), -1, np.int64), max(1, len(order) - 1)
    least = min(int((labels == label).sum()) for label in order)
    for place, label in enumerate(order):
        members = np.flatnonzero(labels == label)[: max(1, round(least * ratio ** (-place / last)))]
        kept[members] = label
    return kept


def with_noise(
    deals: Sequence[StageDeal], labels: Labels, share: float, seed: int
) -> list[StageDeal]:
    """Return stages in which a share of every device's samples has the label of another class."""
    if not share:
        return list(deals)
    noisy = []
    for stage, deal in enumerate(deals, start=1):
        random, given = random_stream(seed, "label noise", stage), dict[int, Indices]()
        for device, samples in deal.shares.items():
            given[device] = labels[samples]
            wrong = random.permutation(len(samples))[: part_of(share, len(samples))]
            for place in wrong if len(deal.classes) > 1 else ():
                others = [label for label in deal.classes if label != given[device][place]]
                given[device][place] = random.choice(others)
        noisy.append(replace(deal, labels=given))
    return noisy


def _of_ours(
    deal: Callable[[PlanRequest, Any, Labels], Sequence[StageDeal]],
) -> Callable[[PlanRequest, Any, Labels], Sequence[StageDeal]]:
    """Return a plan with a long tail and noise, where its options ask for them."""

    def dealt(request: PlanRequest, options: PlanOptions, labels: Labels) -> Sequence[StageDeal]:
        if labels.ndim == 2:
            asked = [name for name in PlanOptions.model_fields if getattr(options, name)]
            if asked:
                raise PlanError(
                    f"stages.options.{asked[0]}: with pictures that show several classes; leave it "
                    "out"
                )
            return deal(request, options, labels)
        if options.long_tail is not None:
            stages = divide_classes(request.stages, request.train.class_names, request.seed)
            order = [label for classes in stages for label in classes]
            labels = thinned(labels, order, options.long_tail)
        return with_noise(
            deal(request, options, labels), request.labels, options.label_noise, request.seed
        )

    return dealt


def _deal_by_stage(request: PlanRequest, labels: Labels, stage_of: Indices) -> list[StageDeal]:
    """Deal the samples of every stage, (N,) of them 0 for none, by the scenario's rule."""
    deals = []
    for stage in range(1, request.stages.total + 1):
        pool = np.flatnonzero((stage_of == stage) & (labels >= 0)).astype(np.int64)
        if not len(pool):
            raise PlanError(f"stages: stage {stage} gets no sample; give fewer stages")
        classes = tuple(int(label) for label in np.unique(labels[pool]))
        deals.append(StageDeal(classes, request.deal(stage, pool, classes)))
    return deals


def _class_stages(request: PlanRequest) -> Indices:
    """Return the number of the stage that each class is of, (C,); 0 for classes not used."""
    names = request.train.class_names
    stage_of = np.zeros(len(names), np.int64)
    for number, classes in enumerate(divide_classes(request.stages, names, request.seed), start=1):
        stage_of[list(classes)] = number
    return stage_of


def _blurry(request: PlanRequest, options: BlurryOptions, labels: Labels) -> list[StageDeal]:
    stage_of_class, random, last = _class_stages(request), request.random, request.stages.total
    stage_of = np.where(labels >= 0, stage_of_class[labels], 0)
    for label in np.flatnonzero(stage_of_class) if last > 1 else ():
        own = int(stage_of_class[label])
        near = [stage for stage in (own - 1, own + 1) if 1 <= stage <= last]
        others = [stage for stage in range(1, last + 1) if stage != own]
        members = random.permutation(np.flatnonzero(labels == label))
        moved = members[: part_of(options.share, len(members))]
        stage_of[moved] = random.choice(
            near if options.reach == "neighbours" else others, len(moved)
        )
    return _deal_by_stage(request, labels, stage_of)


def _repetition(
    request: PlanRequest, options: RepetitionOptions, labels: Labels
) -> list[StageDeal]:
    stage_of_class, random, last = _class_stages(request), request.random, request.stages.total
    stage_of = np.zeros(len(labels), np.int64)
    for label in np.flatnonzero(stage_of_class):
        first = int(stage_of_class[label])
        again = [t for t in range(first + 1, last + 1) if random.random() < options.again]
        members = random.permutation(np.flatnonzero(labels == label))
        for stage, part in zip(
            (first, *again), np.array_split(members, 1 + len(again)), strict=True
        ):
            stage_of[part] = stage
    return _deal_by_stage(request, labels, stage_of)


def _domains(request: PlanRequest, options: DomainOptions, labels: Labels) -> list[StageDeal]:
    domains = domains_of(request.train)
    if domains is None:
        raise PlanError(
            "stages.plan: 'domains', and the data set does not say of which domain a sample is; "
            "take another data set, such as 'digit-styles', or another plan"
        )
    count = len(domains.names)
    if request.stages.total > count:
        raise PlanError(
            f"stages.count: {request.stages.total}, and the data set has "
            f"{count_of(count, 'domain')}; give at most {count}"
        )
    order = request.random.permutation(count) if options.order == "seeded" else np.arange(count)
    place = np.empty(count, np.int64)
    place[order] = np.arange(1, count + 1)
    used = np.zeros(len(request.train.class_names), bool)
    whole = request.stages.model_copy(update={"count": 1, "first": None})
    for classes in divide_classes(whole, request.train.class_names, request.seed):
        used[list(classes)] = True
    stage_of = np.where((labels >= 0) & used[labels], place[domains.of_sample], 0)
    return _deal_by_stage(request, labels, stage_of)


def _own_orders(request: PlanRequest, options: PlanOptions, labels: Labels) -> list[StageDeal]:
    del options
    names, last = request.train.class_names, request.stages.total
    used = np.flatnonzero(_class_stages(request))
    pool = np.flatnonzero(np.isin(labels, used)).astype(np.int64)
    held, random = request.deal(1, pool, tuple(map(int, used))), request.random
    shares: list[dict[int, Indices]] = [{} for _ in range(last)]
    for device, samples in held.items():
        stage_of_class = np.zeros(len(names), np.int64)
        for number, part in enumerate(np.array_split(random.permutation(used), last)):
            stage_of_class[part] = number
        for number in range(last):
            shares[number][device] = samples[stage_of_class[labels[samples]] == number]
    deals = []
    for stage, parts in enumerate(shares, start=1):
        found = np.unique(labels[np.concatenate([np.empty(0, np.int64), *parts.values()])])
        if not len(found):
            raise PlanError(f"stages: stage {stage} gets no sample; give fewer stages")
        deals.append(StageDeal(tuple(int(label) for label in found), parts))
    return deals


def _rows(request: PlanRequest, options: PlanOptions, labels: Labels) -> Sequence[StageDeal]:
    del options, labels
    file = request.stages.file
    assert file is not None, "scenarios are checked for that"
    return deal_rows(request, read_plan_file(file, request.train.class_names), file)


class NoOptions(Strict):
    """Rows say all."""


_OURS = {
    "classes": Plan(
        _of_ours(lambda request, _, labels: deal_classes(request, labels)),
        options_of(PlanOptions),
        repeats=False,
    ),
    "blurry": Plan(_of_ours(_blurry), options_of(BlurryOptions)),
    "repetition": Plan(_of_ours(_repetition), options_of(RepetitionOptions)),
    "domains": Plan(_of_ours(_domains), options_of(DomainOptions)),
    "own-orders": Plan(_of_ours(_own_orders), options_of(PlanOptions)),
    "rows": Plan(_rows, options_of(NoOptions), deals=False, of_file=True),
}
PLANS.own(_OURS)
