"""Carrying attacks out: what a device would send is made, read, and turned into pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fleetledger.methods.statistics.sides import FeatureMap
from fleetledger.simulator.attack.membership import membership
from fleetledger.simulator.attack.payloads import Floats, Rows, difference, features_told, map_of
from fleetledger.simulator.attack.report import rows_of_pictures
from fleetledger.simulator.attack.search import SearchSettings, likeness, searched
from fleetledger.simulator.attack.subject import Subject, subject_of
from fleetledger.simulator.attack.table import (
    ATTACKS,
    AttackLine,
    AttacksReport,
    KnownAttack,
    SubjectSettings,
)
from fleetledger.simulator.attack.updates import OneStepLearner, inverted

_SEARCH = SearchSettings()
_OF_GRADIENTS = replace(_SEARCH, steps=800, smoothness=1e-4)
_MEMBERS = 600
_STAYS = 4
"""Times as many images as an attack is of, and as many more, are in the part that is revised."""


@dataclass(frozen=True, eq=False)
class Attempted:
    """True pictures, and those that an attack makes of what was sent."""

    truth: Tensor
    found: Tensor


def run_attacks(
    names: tuple[str, ...],
    settings: SubjectSettings,
    images: tuple[int, ...],
    repeats: int,
    out: Path | None,
) -> AttacksReport:
    """Run attacks on each number of images of a class; write pictures into `out`.

    Figures are means over `repeats` classes, which the seed draws. Raises `AttackError`.
    """
    subject = subject_of(settings)
    lines, wrote = list[AttackLine](), list[str]()
    for name in names:
        attack = ATTACKS[name]
        if attack.kind == "members":
            lines.append(_members(name, attack, subject))
            continue
        for count in images:
            if count < attack.least:
                continue
            began = time.perf_counter()
            every = list(_repeated(attack, subject, count, repeats))
            seconds = (time.perf_counter() - began) / repeats
            line = AttackLine(name, attack.reads, count, **_means(every), seconds=seconds)
            lines.append(line)
            if out is not None:
                path = rows_of_pictures(
                    out / f"{name}-{count}.png", every[-1].truth, every[-1].found
                )
                wrote.append(str(path))
    return AttacksReport(attacks=tuple(lines), wrote=tuple(wrote))


def _repeated(
    attack: KnownAttack, subject: Subject, count: int, repeats: int
) -> Iterator[Attempted]:
    chance = np.random.default_rng(subject.settings.seed)
    for _ in range(repeats):
        yield _attempt(attack, subject, subject.some(count, chance))


def _attempt(attack: KnownAttack, subject: Subject, rows: Rows) -> Attempted:
    truth = subject.pictures[rows]
    others = np.setdiff1d(np.flatnonzero(subject.classes == subject.classes[rows[0]]), rows)
    match attack.kind:
        case "guess":
            return Attempted(truth, subject.pictures[others].mean(0, keepdim=True))
        case "update":
            return Attempted(
                truth, inverted(OneStepLearner.of(subject, attack.method), truth, _OF_GRADIENTS)
            )
        case "part":
            vectors = features_told(attack, subject, rows)
            return Attempted(truth, _pictures(subject, map_of(attack, subject), vectors))
    part = np.concatenate([rows[:1], others[: _STAYS * (len(rows) + 1)]])
    least = len(rows) if attack.kind == "held-revision" else 1
    vectors, gone = difference(subject, part, least)
    return Attempted(subject.pictures[gone], _pictures(subject, map_of(attack, subject), vectors))


def _pictures(subject: Subject, after: FeatureMap, vectors: Floats) -> Tensor:
    """Return pictures (k, c, s, s) whose features point where `vectors` h (k, M) do."""
    aim = torch.nn.functional.normalize(torch.as_tensor(vectors, dtype=torch.float32))

    def loss(pictures: Tensor) -> Tensor:
        h = torch.nn.functional.normalize(subject.mapped(pictures, after))
        return (h - aim).square().sum()

    return searched(loss, (len(aim), *subject.shape), _SEARCH)


def _members(name: str, attack: KnownAttack, subject: Subject) -> AttackLine:
    began, seed = time.perf_counter(), subject.settings.seed
    rows = np.random.default_rng(seed).permutation(len(subject.classes))[:_MEMBERS]
    told = replace(attack, method="stsa")
    found = membership(
        subject.quantised(rows, map_of(told, subject)).astype(np.float64),
        subject.classes[rows],
        seed,
    )
    line = AttackLine(name, attack.reads, auc=found.auc, found=found.found)
    return replace(line, seconds=time.perf_counter() - began)


def _means(every: list[Attempted]) -> dict[str, float]:
    alike = [likeness(shown.found, shown.truth) for shown in every]
    return {
        name: float(np.mean([getattr(one, name) for one in alike]))
        for name in ("psnr", "ssim", "gmsd")
    }
