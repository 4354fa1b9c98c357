"""Training samples with those that a plan gives under another label, as devices meet them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.kinds import SampleKind
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.samples import Content, Domains, SampleSet, domains_of
from fleetledger.simulator.plan.fleet_plan import FleetPlan


@dataclass(frozen=True)
class Relabelled:
    """Samples of a data set by their labels in a plan; they fit `SampleSet`."""

    samples: SampleSet
    of_sample: NDArray[np.int64]
    """Which of `samples` each is, (N,)."""
    labels: NDArray[np.int64]
    """(N,)."""

    @property
    def kind(self) -> SampleKind:
        """Kind of the files that they are on devices."""
        return self.samples.kind

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes."""
        return self.samples.class_names

    @property
    def owners(self) -> NDArray[np.int64] | None:
        """Natural owner of each sample."""
        owners = self.samples.owners
        return None if owners is None else owners[self.of_sample]

    @property
    def domains(self) -> Domains | None:
        """Domain of each sample."""
        domains = domains_of(self.samples)
        return None if domains is None else domains.take(self.of_sample)

    def __len__(self) -> int:
        return len(self.of_sample)

    def picture(self, index: int) -> Content:
        """Return one picture or text."""
        return self.samples.picture(int(self.of_sample[index]))

    def digest(self, index: int) -> Digest:
        """Return the digest of its content, which is that of the sample by its true label too."""
        return self.samples.digest(int(self.of_sample[index]))

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of the samples, and which has which label."""
        parts = np.stack([self.of_sample, self.labels]).astype("<i8").tobytes()
        return Digest.of(f"{self.samples.fingerprint} relabelled ".encode() + parts)

    def take(self, indices: NDArray[np.int64]) -> Relabelled:
        """Return the samples at `indices`, in that order."""
        return Relabelled(self.samples, self.of_sample[indices], self.labels[indices])


def as_given(split: Split, plan: FleetPlan) -> Split:
    """Return the data set with the samples that a plan gives under another label; else itself."""
    if plan.renamed is None:
        return split
    train, renamed = split.train, plan.renamed
    return Split(
        train=Relabelled(
            train,
            np.concatenate([np.arange(len(train)), renamed.samples]),
            np.concatenate([train.labels, renamed.labels]),
        ),
        test=split.test,
    )
