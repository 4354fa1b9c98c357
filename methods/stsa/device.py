"""STSA on a device: one pass over local samples gives statistics, and that is all it sends.

    finish   G_k = H_k^T H_k and P_k = H_k^T Y_k (section 4 of the paper), as integers; or, in the
             estimated form, class sums S_k and counts n_k of groups of samples (section 5)

Pure functions: features come from `frozen.onnx` by way of the agent, the payload goes back to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.class_scatter import class_contrasts
from fleetledger.learning.numerics.compact import CompactFactor, factor, round_factor
from fleetledger.learning.numerics.exact_sum import ScaledIntegers, smallest_exponent
from fleetledger.learning.numerics.gram import check_integers, class_sums, gram_triangle
from fleetledger.learning.numerics.grouping import split_per_class, split_shuffled
from fleetledger.learning.numerics.triangles import pack_upper
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.labels import check_samples, count_classes, index_classes
from fleetledger.methods.statistics.part import NO_CONTEXT, PartContext
from fleetledger.methods.statistics.private_moments import clipped, every_class, noise_of
from fleetledger.methods.statistics.sides import Features, MadeContribution, StatisticsDevice
from fleetledger.methods.statistics.words import Words
from fleetledger.methods.stsa.assignment import TRIANGLE_BITS
from fleetledger.methods.stsa.group_sums import GroupSums, dealer_of
from fleetledger.methods.stsa.messages import (
    LocalStatistics,
    StsaAssignment,
    decode_statistics,
    encode_statistics,
)
from fleetledger.methods.stsa.noise import NoiseSource
from fleetledger.methods.stsa.settings import Form, StsaSettings
from fleetledger.schemas.values import ClassName

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.float32] | Floats
Integers = npt.NDArray[np.int64]


class StsaDevice(StatisticsDevice[StsaAssignment]):
    """Sends statistics in the form that fleet and owner choose."""

    assignment_type = StsaAssignment

    def finish(
        self,
        assignment: StsaAssignment,
        features: Features,
        labels: Sequence[str],
        context: PartContext = NO_CONTEXT,
    ) -> MadeContribution:
        """Return the contribution of `features` h (n x M) with one class name per sample.

        `features` is what `frozen.onnx` puts out: integers held in float32, or in any integer type;
        behind the Gaussian map floats. Equal arguments give equal payloads. Where noise is added to
        counts, `samples` are the noisy ones. Raises `MethodError` naming what is wrong.
        """
        try:
            statistics = compute_statistics(assignment, features, labels, context)
        except LearningError as error:
            raise MethodError(str(error)) from error
        cells: tuple[int, ...] = ()
        if statistics.form == "estimated":
            _, classes = index_classes(assignment, labels)
            cells = tuple(_dealt(assignment.settings, classes, context).tolist())
        payload = encode_statistics(statistics)
        return MadeContribution.of(payload, statistics.samples_per_class, cells)

    def to_words(
        self, assignment: StsaAssignment, payload: bytes, class_names: Sequence[ClassName]
    ) -> Words:
        """Return a payload of the form 'exact' as words; raise `MethodError` for another."""
        assignment.masked_form()
        return decode_statistics(payload, assignment).moments().to_words(class_names)


DEVICE = StsaDevice()


def compute_statistics(
    assignment: StsaAssignment,
    features: Features,
    labels: Sequence[str],
    context: PartContext = NO_CONTEXT,
) -> LocalStatistics:
    """Return the statistics of `features` (n x M) with one class name per sample.

    Raises `LearningError` or `MethodError` as `finish` tells.
    """
    check_samples(assignment, features, labels)
    form = _form(assignment, context)
    names, classes = index_classes(assignment, labels)
    counts = count_classes(assignment, names, classes)
    H = _numbers(assignment, features)
    private = noise_of(assignment)
    noise = NoiseSource(assignment.settings, context.secret, private)
    if private is not None:
        H = clipped(H, private.squared_length)
        names, classes = every_class(context.class_names, names, classes)
        counts = np.bincount(classes, minlength=len(names)).astype(np.int64)
    if form == "estimated":
        groups = _group_sums(assignment, H, classes, noise, context)
        return LocalStatistics.of_groups(names, groups)
    settings = assignment.settings
    return LocalStatistics(
        names,
        noise.noisy(counts, settings.min_samples_per_class, settings.max_samples_per_part),
        _sums(assignment, H, classes, len(names), noise),
        _gram(assignment, form, H, classes, noise),
    )


def _form(assignment: StsaAssignment, context: PartContext) -> Form:
    allowed = assignment.settings.allowed_forms
    for form in allowed:
        if context.form in (None, form):
            return form
    raise MethodError(
        f"form: {context.form!r} is not allowed in this fleet; choose {' or '.join(allowed)}"
    )


def _numbers(assignment: StsaAssignment, features: Features) -> Numbers:
    """Return the features as float32 that holds integers, or as float64 behind the float map."""
    if assignment.integer:
        return check_integers(features, assignment.lowest, assignment.settings.largest)
    numbers: Floats = features.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise MethodError("features: NaN or infinite; check the backbone and its preprocessing")
    return numbers


def _group_sums(
    assignment: StsaAssignment,
    H: Numbers,
    classes: Integers,
    noise: NoiseSource,
    context: PartContext,
) -> GroupSums:
    """Return sums and counts of the groups that the seed deals the samples to."""
    settings = assignment.settings
    group = _dealt(settings, classes, context)
    # Rows in the order of class, then group; groups without the class have none.
    cells, row = np.unique(classes * settings.groups + group, return_inverse=True)
    counts = np.bincount(row).astype(np.int64)
    made = GroupSums(
        np.bincount(cells // settings.groups).astype(np.int64),
        noise.noisy(counts, settings.min_samples_per_class, settings.max_samples_per_part),
        _sums(assignment, H, row, len(cells), noise),
        int(group.max()) + 1,
    )
    if not settings.counts_empty_groups:
        return made
    dealer, row_groups = dealer_of(context.seed), (cells % settings.groups).astype(np.int64)
    return replace(made, groups=settings.groups, dealer=dealer, row_groups=row_groups)


def _dealt(settings: StsaSettings, classes: Integers, context: PartContext) -> Integers:
    """Return the group (n,) of each sample; those that were summed together stay together."""
    if settings.split == "shuffled":
        return split_shuffled(len(classes), settings.groups, context.seed)
    together = None
    if context.told:
        numbers = np.unique(context.told, return_inverse=True)[1]
        together = np.where(np.array(context.told) == "", -1, numbers)
    return split_per_class(classes, settings.groups, settings.group_minimum, context.seed, together)


def _sums(
    assignment: StsaAssignment, H: Numbers, row: Integers, rows: int, noise: NoiseSource
) -> ScaledIntegers:
    """Return the sum of h over the samples of each row (`rows` x M); `row` is (n,)."""
    added = noise.on_sums((rows, assignment.columns))
    if assignment.integer:
        return _with(ScaledIntegers(class_sums(H.astype(np.float32, copy=False), row, rows)), added)
    sums = np.stack([H[row == index].sum(axis=0) for index in range(rows)])
    return _rounded(assignment, sums if added is None else sums + added)


def _gram(
    assignment: StsaAssignment, form: Form, H: Numbers, classes: Integers, noise: NoiseSource
) -> ScaledIntegers | CompactFactor:
    if form == "compact":
        contrasts = class_contrasts(H, classes, int(classes.max()) + 1)
        return round_factor(factor(contrasts, assignment.columns), assignment.row_steps)
    added = noise.on_gram(assignment.columns)
    if assignment.integer:
        exact = gram_triangle(H.astype(np.float32, copy=False), assignment.settings.largest)
        return _with(ScaledIntegers(exact), added)
    triangle: Floats = pack_upper(H.T @ H).astype(np.float64, copy=False)
    return _rounded(assignment, triangle if added is None else triangle + added)


def _with(numbers: ScaledIntegers, noise: Floats | None) -> ScaledIntegers:
    """Return integers with noise rounded to integers."""
    if noise is None:
        return numbers
    return ScaledIntegers(numbers.values + np.rint(noise).astype(np.int64), numbers.exponent)


def _rounded(assignment: StsaAssignment, numbers: Floats) -> ScaledIntegers:
    """Return `numbers` in the finest allowed steps that hold them in 48 bits."""
    largest = float(np.abs(numbers).max(initial=0.0))
    finest, coarsest = assignment.settings.gaussian_steps
    exponent = smallest_exponent(largest, TRIANGLE_BITS, finest, coarsest)
    return ScaledIntegers.rounded(numbers, exponent, TRIANGLE_BITS)
