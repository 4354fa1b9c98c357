"""The comparisons of a device: what is compared on which images, and what travels of it.

It works for a while each time that it is asked. That a comparison has begun is written down before
the candidate is asked anything, as its test is (`device_agent.models.probation`): a model that ends
the agent is compared a few times, and not for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.core.records import PendingComparison
from fleetledger.device_agent.core.requests import Compare
from fleetledger.device_agent.errors import CandidateError, ModelError
from fleetledger.device_agent.home.health.machine import Conditions, Machine
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.memory import release_memory
from fleetledger.device_agent.kinds import PICTURES
from fleetledger.device_agent.models.comparison.images import (
    ComparedImage,
    held_out,
    held_out_scenes,
    unlabelled,
    unlabelled_scenes,
)
from fleetledger.device_agent.models.comparison.live import live_sample_of
from fleetledger.device_agent.models.comparison.opinions import (
    AskedModel,
    PixelModel,
    SampleModel,
    common_names,
)
from fleetledger.device_agent.models.comparison.running_comparison import (
    ComparedModel,
    RunningComparison,
)
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import Inputs, InstalledModel
from fleetledger.device_agent.models.probation import Attempts
from fleetledger.device_agent.models.self_test import golden_inputs
from fleetledger.device_agent.models.trial.trial import VariantOf
from fleetledger.device_agent.samples.sources.folder import samples_below
from fleetledger.learning.errors import LearningError
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.rollouts import ModelComparison, ModelCost
from fleetledger.schemas.values import ClassName, Digest

log = logging.getLogger("device_agent.comparison")

MOST_TOLD = 20
"""Images that are left out of a comparison, of which each is told."""
PIECE_SECONDS = 2.0
"""After so long the worker does something else, if there is anything."""
Weigh = Callable[[Digest], "int | None"]
"""Returns the resident bytes of a process that has a model loaded; None where nobody tries one."""


@dataclass
class _UnderWay:
    """A comparison that has begun in this run."""

    pending: PendingComparison
    running: RunningComparison
    provider: str
    weights: tuple[int | None, int | None]
    """Resident bytes of the active model and of the candidate."""
    began: Conditions
    """How the machine was then."""
    met: Conditions
    """How it has been since."""


class Comparer:
    """Compares models of a device, one comparison at a time; for one thread."""

    def __init__(
        self,
        home: AgentHome,
        host: ModelHost,
        attempts: Attempts | None,
        machine: Machine | None,
        weigh: Weigh,
        variant_of: VariantOf = lambda _: None,
    ) -> None:
        """`variant_of` tells on which variant a model in a slot runs, by its manifest."""
        self._home = home
        self._host = host
        self._attempts = attempts
        self._variant_of = variant_of
        self._machine = machine
        self._weigh = weigh
        self._under_way: _UnderWay | None = None

    def answer(self, request: Compare) -> tuple[inputs.Input, ...]:
        """Compare for a while; return how far that has come."""
        pending = request.pending
        try:
            under_way = self._begun(request)
            self._look(under_way)
            done = under_way.running.work(PIECE_SECONDS)
            self._look(under_way)
        except CandidateError as error:
            self.leave()
            return (inputs.ComparisonFailed(pending, str(error)),)
        except (FleetledgerError, LearningError) as error:
            return self._ended_by(pending, error)
        if not done:
            return (inputs.ComparisonGoesOn(pending),)
        self.leave()
        told = [problem("sample", text) for text in under_way.running.left_out[:MOST_TOLD]]
        compared = inputs.Compared(pending, self._comparison(under_way))
        return (*map(inputs.Noticed, told), compared)

    def leave(self) -> None:
        """Let go of the comparison that is under way, with its models."""
        if self._under_way is not None:
            self._under_way = None
            if self._attempts is not None:
                self._attempts.end()
            release_memory()

    def _begun(self, request: Compare) -> _UnderWay:
        if self._under_way is not None and self._under_way.pending == request.pending:
            return self._under_way
        self.leave()
        pending = request.pending
        self._count(pending.candidate.manifest)
        weights = (self._weigh(pending.beside.manifest), self._weigh(pending.candidate.manifest))
        active = self._loaded(pending.beside.manifest)
        try:
            candidate = self._loaded(pending.candidate.manifest)
            names = common_names(active, candidate)
            compared = self._compared(candidate, names)
        except ModelError as error:
            raise CandidateError(f"comparison: {error}") from error
        running = RunningComparison(
            self._compared(active, names),
            compared,
            self._images(active, candidate, request.waiting),
            self._home.settings.model.compare_seconds,
        )
        now = self._conditions()
        self._under_way = _UnderWay(pending, running, candidate.provider, weights, now, now)
        return self._under_way

    def _loaded(self, manifest: Digest) -> InstalledModel:
        return self._host.model(self._host.manifest(manifest), self._variant_of(manifest))

    def _count(self, manifest: Digest) -> None:
        """Count that a comparison begins; a disk that has no room for that hinders none."""
        if self._attempts is None:
            return
        try:
            refused = self._attempts.begin(manifest)
        except ModelError as error:
            log.warning("a comparison is not counted: %s", error)
            return
        if refused:
            raise CandidateError(refused)

    def _compared(self, model: InstalledModel, names: tuple[ClassName, ...]) -> ComparedModel:
        asked: AskedModel = SampleModel(model)
        if model.of_pixels:
            asked = PixelModel(model, self._home.evaluation_folder, names)
        golden: Sequence[Inputs] = list(
            golden_inputs(self._host.read(model.manifest.golden.digest))
        )
        return ComparedModel(asked, frozenset(model.manifest.class_names), golden)

    def _images(
        self, active: InstalledModel, candidate: InstalledModel, waiting: frozenset[ClassName]
    ) -> list[ComparedImage]:
        most, data = self._home.settings.model.compare_images, self._home.data_folder
        if most == 0 or active.of_pixels != candidate.of_pixels:
            return []
        folder = self._home.evaluation_folder
        below = partial(samples_below, preprocessing=active.manifest.preprocessing)
        if active.of_pixels:
            labelled = held_out_scenes(folder, most) if folder is not None else []
            return labelled + self._with_live(unlabelled_scenes(data, PICTURES.suffixes, most))
        known = (frozenset(active.manifest.class_names), frozenset(candidate.manifest.class_names))
        labelled = held_out(folder, known[0] | known[1], below, most) if folder else []
        left_out = (known[0] ^ known[1]) | waiting
        return labelled + self._with_live(unlabelled(data, left_out, below, most))

    def _with_live(self, others: list[ComparedImage]) -> list[ComparedImage]:
        """Put images that applications showed before others without labels, as many in all."""
        sample = live_sample_of(self._home)
        live = [] if sample is None else [ComparedImage(path) for path in sample.images()]
        if live:
            log.info("a candidate is compared on %d live images, too", len(live))
        return (live + others)[: self._home.settings.model.compare_images]

    def _ended_by(self, pending: PendingComparison, error: Exception) -> tuple[inputs.Input, ...]:
        """Tell what was counted until something went wrong that is none of the candidate's."""
        under_way = self._under_way
        self.leave()
        told = inputs.Noticed(problem("model", f"comparison: {error}"))
        if under_way is None:
            return (told, inputs.Compared(pending, _nothing_of(pending)))
        return (told, inputs.Compared(pending, self._comparison(under_way)))

    def _comparison(self, under_way: _UnderWay) -> ModelComparison:
        tally, pending = under_way.running.tally, under_way.pending
        active, candidate = (
            ModelCost(latency=latency.counts(), resident_bytes=weight)
            for latency, weight in zip(tally.latencies, under_way.weights, strict=True)
        )
        self._look(under_way)
        met = under_way.met
        return _nothing_of(pending).model_copy(
            update={
                "classes": dict(sorted(tally.classes.items())),
                "new_classes": self._new_to(pending.beside.manifest, tally.classes),
                "entropy_active": tally.entropies[0].counts(),
                "entropy_candidate": tally.entropies[1].counts(),
                "agreed": tally.agreed,
                "unlabelled": tally.unlabelled,
                "cost_active": active,
                "cost_candidate": candidate,
                "throttled": met.throttled,
                "celsius": met.celsius,
                "provider": under_way.provider,
                "power_mode": met.power_mode,
                "seconds": round(under_way.running.spent, 3),
            }
        )

    def _new_to(self, manifest: Digest, names: Iterable[ClassName]) -> tuple[ClassName, ...]:
        return tuple(sorted(set(names) - set(self._host.manifest(manifest).class_names)))

    def _look(self, under_way: _UnderWay) -> None:
        """Take in how the machine is now; the hottest counts."""
        before = replace(under_way.began, celsius=under_way.met.celsius)
        under_way.met = self._conditions().since(before)

    def _conditions(self) -> Conditions:
        return Conditions() if self._machine is None else self._machine.conditions()


def _nothing_of(pending: PendingComparison) -> ModelComparison:
    """Return a comparison in which nothing was counted."""
    return ModelComparison(
        number=0,
        rollout=pending.rollout,
        group=pending.group,
        mode=pending.mode,
        candidate=pending.candidate.manifest,
        candidate_version=pending.candidate.version,
        active=pending.beside.manifest,
        active_version=pending.beside.version,
    )
