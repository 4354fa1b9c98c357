"""Comparison of two models, a piece at a time.

Both are asked about one image after the other, in turn who comes first, so that they meet the same
machine; nothing is asked of many images at once, as an app does not either. Where there are too few
images, samples of the golden batches tell how long the models take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from fleetledger.device_agent.core.standing_problems import UNANSWERED, left_out_text
from fleetledger.device_agent.errors import CandidateError, ModelError
from fleetledger.device_agent.models.comparison.counts import ComparisonTally
from fleetledger.device_agent.models.comparison.images import ComparedImage
from fleetledger.device_agent.models.comparison.opinions import (
    AskedModel,
    ModelOpinion,
    ReadSample,
    agree,
)
from fleetledger.device_agent.models.inference.installed_model import Inputs
from fleetledger.learning.errors import FeatureError, NotFiniteError
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName

LEAST_RUNS = 30
"""Of each model, by which its time is told."""
Clock = Callable[[], float]


@dataclass(frozen=True)
class ComparedModel:
    """One of the two."""

    asked: AskedModel
    names: frozenset[ClassName]
    golden: Sequence[Inputs]
    """Samples of its golden batch."""


class RunningComparison:
    """Two models under way over some images; for one thread."""

    def __init__(
        self,
        active: ComparedModel,
        candidate: ComparedModel,
        images: Sequence[ComparedImage],
        seconds: float,
        clock: Clock = time.monotonic,
    ) -> None:
        """After `seconds` of work no further image is begun."""
        self._models = (active, candidate)
        self._shared = active.names & candidate.names
        self._images = iter(images)
        self._seconds = seconds
        self._clock = clock
        self._warm = False
        self._turn = 0
        self.tally = ComparisonTally()
        self.left_out: list[str] = []
        """Images for which one of the two has no finite numbers, each with the reason."""
        self._answered = 0
        self._unanswered = 0
        """Images that the active model answers, and the candidate does not."""
        self.spent = 0.0
        """Seconds of work so far."""

    def work(self, seconds: float) -> bool:
        """Work for about so long, on one image at least; return whether all is done.

        Raises `CandidateError` where the candidate does not answer, `ModelError` or `FeatureError`
        where the active model does not.
        """
        began = self._clock()
        try:
            while True:
                left = self._seconds - self.spent - (self._clock() - began)
                image = next(self._images, None) if left > 0 else None
                if image is None:
                    self._check_answered()
                    self._run_golden()
                    return True
                self._take(image)
                if self._clock() - began >= seconds:
                    return False
        finally:
            self.spent += self._clock() - began

    def _take(self, image: ComparedImage) -> None:
        prepared = tuple(model.asked.prepare(image) for model in self._models)
        if prepared[0] is None or prepared[1] is None:
            return
        both = (prepared[0], prepared[1])
        if not self._warm:
            self._ask(image, both)
            self._warm = True
        active, candidate = self._ask(image, both)
        if active is None or candidate is None:
            self.left_out.append(left_out_text(image.path, UNANSWERED))
            self._unanswered += active is not None
            return
        self._answered += 1
        tally = self.tally
        tally.time((active.reply.seconds, candidate.reply.seconds))
        labelled = image.class_name is not None or image.mask is not None
        if labelled:
            tally.add_labelled(active.reply, candidate.reply)
        else:
            same = agree(active, candidate)
            if same is not None:
                tally.add_unlabelled(agree=same)
        if active.reply.right.keys() <= self._shared:
            tally.add_entropies((active.reply.nats, candidate.reply.nats))

    def _ask(
        self, image: ComparedImage, prepared: tuple[ReadSample, ReadSample]
    ) -> tuple[ModelOpinion | None, ModelOpinion | None]:
        """Return what each says of an image; None for one that has no finite numbers for it."""
        self._turn += 1
        if self._turn % 2:
            first = _opinion(self._models[0].asked, image, prepared[0])
            return first, self._ask_candidate(image, prepared[1])
        second = self._ask_candidate(image, prepared[1])
        return _opinion(self._models[0].asked, image, prepared[0]), second

    def _ask_candidate(self, image: ComparedImage, prepared: ReadSample) -> ModelOpinion | None:
        try:
            return _opinion(self._models[1].asked, image, prepared)
        except (ModelError, FeatureError) as error:
            raise CandidateError(f"comparison: {error}") from error

    def _check_answered(self) -> None:
        """Refuse a candidate that leaves out more than it answers of what the active one does."""
        if self._unanswered > self._answered:
            both = self._unanswered + self._answered
            raise CandidateError(
                f"comparison: the candidate gives NaN or infinity for {self._unanswered} of "
                f"{count_of(both, 'image')} that the active model answers"
            )

    def _run_golden(self) -> None:
        """Take the time of golden samples where images were too few."""
        missing = LEAST_RUNS - self.tally.timed
        if missing <= 0 or not all(model.golden for model in self._models):
            return
        active, candidate = (model.asked for model in self._models)
        samples = zip(*(cycle(model.golden) for model in self._models), strict=True)
        for one, two in islice(samples, missing + (not self._warm)):
            taken = (active.golden(one), candidate.golden(two))
            if self._warm:
                self.tally.time(taken)
            self._warm = True


def _opinion(asked: AskedModel, image: ComparedImage, prepared: ReadSample) -> ModelOpinion | None:
    try:
        return asked.ask(image, prepared)
    except NotFiniteError:
        return None
