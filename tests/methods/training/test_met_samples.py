"""Samples that a device has trained: when each was new, and which are new in an order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.kept_files import Listed
from fleetledger.methods.training.met_samples import MetSamples, met_of
from fleetledger.schemas.values import ClassName, Digest

NAMES = tuple(ClassName(name) for name in ("ant", "bee", "cat"))
PARTS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 30), st.integers(1, 9)), max_size=40
)


def digest(number: int) -> Digest:
    return Digest.of(str(number).encode())


@given(PARTS)
def test_the_first_stage_of_a_sample_stays(parts) -> None:
    """Law: stages after adding (name, sample, stage) one by one are those of a dictionary."""
    met, expected = MetSamples(), {}
    for name, number, stage in parts:
        met = met.with_samples([name], [digest(number)], stage)
        expected.setdefault((name, number), stage)
    asked = [(name, number) for name in NAMES for number in range(31)]
    found = met.stages([name for name, _ in asked], [digest(number) for _, number in asked])
    assert found == [expected.get(pair, 0) for pair in asked]
    assert met_of(*met.written()) == met


def test_merged_classes_have_the_samples_of_both() -> None:
    ant, bee, cat = NAMES
    met = MetSamples().with_samples([ant, bee, bee], [digest(1), digest(1), digest(2)], 3)
    merged = met.with_samples([cat], [digest(9)], 4).renamed({bee: ant})
    assert merged.stages([ant] * 3 + [cat], list(map(digest, (1, 2, 3, 9)))) == [3, 3, 0, 4]
    assert merged.stages([bee], [digest(1)]) == [0]


def test_rows_that_are_not_those_of_the_classes_are_refused() -> None:
    rows = np.zeros((3, 12), np.uint8)
    with pytest.raises(MethodError, match=r"3 samples in met, where its 1 class.* have 2"):
        met_of([Listed(name=NAMES[0], count=2)], rows)
    with pytest.raises(MethodError, match="each named once"):
        met_of([Listed(name=NAMES[0], count=1), Listed(name=NAMES[0], count=2)], rows)
