"""Lists of exemplars in a file, and files that are refused."""

from __future__ import annotations

import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.kept_files import (
    DIGEST_ROWS,
    DIGESTS,
    Listed,
    listed,
    lists_of,
    read_kept,
)
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, Digest

ANT, BEE = ClassName("ant"), ClassName("bee")
ONE, TWO, THREE = (Digest.of(name) for name in (b"1", b"2", b"3"))
LISTS = {BEE: (THREE, ONE), ANT: (TWO,)}


class Facts(Strict):
    stage: int


def written(**metadata: object) -> bytes:
    return encode_tensors({DIGESTS: listed(LISTS)[1]}, metadata)


def read(data: bytes) -> tuple[Facts, object]:
    return read_kept("memory", data, {DIGESTS: DIGEST_ROWS}, Facts, 1 << 20)


def test_lists_come_back_sorted_by_class_with_the_best_first():
    classes, rows = listed(LISTS)
    assert classes == (Listed(name=ANT, count=1), Listed(name=BEE, count=2))
    assert rows.shape == (3, 32)
    assert lists_of("exemplars", classes, rows) == LISTS


def test_no_list_is_no_row():
    classes, rows = listed({})
    assert rows.shape == (0, 32)
    assert lists_of("exemplars", classes, rows) == {}


@pytest.mark.parametrize("names", [(ANT,), (ANT, ANT)])
def test_classes_that_do_not_fit_the_rows_are_refused(names):
    classes = [Listed(name=name, count=1) for name in names]
    with pytest.raises(MethodError, match=r"exemplars, where .* remove the file"):
        lists_of("exemplars", classes, listed({ANT: (ONE, TWO)})[1][: len(names) * 2])


def test_a_file_gives_its_metadata_and_tensors():
    facts, tensors = read(written(stage=3))
    assert facts == Facts(stage=3)
    assert (tensors[DIGESTS] == listed(LISTS)[1]).all()


@pytest.mark.parametrize("data", [b"", written(), written(stage="x"), written(stage=3, more=1)])
def test_another_file_is_refused_with_what_it_was_to_be(data):
    with pytest.raises(MethodError, match=r"^memory: "):
        read(data)
