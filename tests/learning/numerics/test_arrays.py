"""Arrays in files: what is read, what is refused with its way out, and the content of a sample."""

import io
import pickle
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fleetledger.learning.errors import ArrayError
from fleetledger.learning.numerics import arrays
from fleetledger.learning.numerics.arrays import (
    array_content,
    array_input,
    read_array,
    samples_in,
)
from fleetledger.schemas.arrays import ArrayPreprocessing


def npy(values: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values, **options)
    return file.getvalue()


def npz(**values: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **values)
    return file.getvalue()


def spec(*shape: int, **changes: Any) -> ArrayPreprocessing:
    return ArrayPreprocessing(mode="array", shape=shape, input_name="window", **changes)


SHAPES = hnp.array_shapes(min_dims=1, max_dims=5, min_side=1, max_side=6)
FINITE = st.floats(-(2.0**99), 2.0**99, width=32)


@given(hnp.arrays(np.float32, SHAPES, elements=FINITE))
def test_the_content_of_a_sample_is_what_numpy_reads_and_is_read_back(values):
    """`read_array(array_content(x)) == x`, and `numpy.load` agrees."""
    content = array_content(values)
    np.testing.assert_array_equal(np.load(io.BytesIO(content)), values)
    np.testing.assert_array_equal(read_array(content, ".npy"), values)
    assert array_content(read_array(content, ".npy")) == content


@given(
    hnp.arrays(st.sampled_from([np.float64, np.float16, np.int16, np.uint8, np.bool_]), SHAPES),
    st.booleans(),
)
@settings(max_examples=60)
def test_a_sample_has_one_content_however_it_is_stored(values, turned):
    stored = np.asfortranarray(values) if turned else values
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    expected = array_content(floats)
    for data, ending in ((npy(stored), ".npy"), (npz(x=stored, other=1), ".npz")):
        assert array_content(read_array(data, ending)) == expected


def test_every_axis_is_normalised_by_its_own_mean_and_deviation():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = array_input(npy(values), spec(2, 3, mean=[1.0, 4.0], deviation=[1.0, 2.0]))
    np.testing.assert_array_equal(found, [[-1, 0, 1], [-0.5, 0, 0.5]])
    found = array_input(values, spec(2, 3, mean=[1.0], deviation=[2.0]))
    np.testing.assert_array_equal(found, (values - 1) / 2)
    assert found.dtype == np.float32


def test_numbers_in_a_row_are_brought_to_the_shape():
    row = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(array_input(row, spec(2, 3)), row.reshape(2, 3))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((5, 2, 3)), r"these are 5 samples of \[2, 3\]; set `\[data\] shape = \[2, 3\]`"),
        (np.zeros((5, 6)), r"these are 5 samples of \[2, 3\]"),
        (np.zeros((3, 2)), r"shape \[3, 2\]; the model takes \[2, 3\]; transpose it"),
        (np.zeros((2, 4)), r"the model takes \[2, 3\]; cut it into windows"),
        (np.float32(1), r"shape \[\]; the model takes"),
        (np.array([[0, 1, 2], [3, np.nan, 5]]), r"nan at \[1, 1\] as float32; leave such samples"),
        (np.full((2, 3), 1e300), r"inf at \[0, 0\] as float32"),
        (np.zeros((2, 3), np.complex64), "values of type complex64; save it as float32"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_with_its_way_out(values, words):
    with pytest.raises(ArrayError, match=words):
        array_input(values, spec(2, 3))


def test_numbers_that_overflow_by_the_deviation_are_refused():
    with pytest.raises(ArrayError, match="overflow when mean and deviation are applied"):
        array_input(np.full(3, 1e38, np.float32), spec(3, deviation=[1e-3]))


class Boom:
    def __reduce__(self):
        return (pytest.fail, ("something was unpickled",))


@pytest.mark.parametrize(
    ("data", "ending", "words"),
    [
        (npy(np.array([Boom()], object), allow_pickle=True), ".npy", "never unpickled"),
        (npz(x=np.array(["text"])), ".npz", "holds <U4; save it as float32"),
        (npy(np.zeros(2, [("a", "f4")])), ".npy", "save it as float32"),
        (pickle.dumps(Boom()), ".npy", "and no .npy file; use numpy.save"),
        (b"", ".npy", "0 bytes, and no .npy file"),
        (npy(np.zeros(4))[:-1], ".npy", r"31 bytes of numbers, where shape \[4\] of float64 has"),
        (npy(np.zeros(4)).replace(b"(4,)", b"[4] "), ".npy", None),
        (npy(np.zeros(4)).replace(b"(4,)", b"(-4)"), ".npy", "header of the .npy file is damaged"),
        (npy(np.zeros(4)).replace(b"<f8", b"<zz"), ".npy", "header of the .npy file is damaged"),
        (npy(np.zeros(4)).replace(b"{", b"("), ".npy", "header of the .npy file is damaged"),
        (b"PK\3\4 torn", ".npz", "the .npz file is damaged"),
        (npz(a=1, b=2), ".npz", r"holds \['a', 'b'\]; keep one array, or call it 'x'"),
    ],
)
def test_files_that_hold_anything_else_are_refused(data, ending, words):
    if words is None:
        np.testing.assert_array_equal(read_array(data, ending), np.zeros(4))
        return
    with pytest.raises(ArrayError, match=words):
        read_array(data, ending)


def test_a_header_that_promises_more_than_the_file_has_makes_no_room_for_it():
    huge = npy(np.zeros(4)).replace(b"(4,), }          ", b"(4000000000000,), }")
    with pytest.raises(ArrayError, match="copy the file again"):
        read_array(huge, ".npy")


def test_an_archive_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_UNPACKED", 1000)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(100_000))
    with pytest.raises(ArrayError, match="unpacks to more than 1000 bytes; cut it into several"):
        read_array(file.getvalue(), ".npz")


@pytest.mark.parametrize(
    ("found", "shape", "samples"),
    [
        ((7, 2, 3), (2, 3), 7),
        ((7, 6), (2, 3), 7),
        ((2, 3), (2, 3), None),
        ((6,), (2, 3), None),
        ((0, 2, 3), (2, 3), 0),
        ((7, 2, 3), None, None),
        ((5, 5), (5,), 5),
        ((3, 2), (2, 3), None),
    ],
)
def test_the_first_axis_counts_samples_where_the_shape_of_one_says_so(found, shape, samples):
    assert samples_in(found, shape) == samples


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_nothing_else(data):
    for ending in (".npy", ".npz"):
        for whole in (data, b"\x93NUMPY\x01\x00" + data):
            with suppress(ArrayError):
                assert read_array(whole, ending).dtype.kind in "fiub"


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pip install 'fleetledger[parquet]'")
class TestParquet:
    """Rows are samples: a column of lists, or columns of numbers side by side."""

    def file(self, **columns: Any) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        written = io.BytesIO()
        pq.write_table(pa.table(columns), written)
        return written.getvalue()

    def test_a_column_of_lists_is_an_array_per_row(self):
        rows = np.arange(24.0).reshape(4, 2, 3)
        np.testing.assert_array_equal(read_array(self.file(x=rows.tolist()), ".parquet"), rows)
        both = self.file(x=rows.tolist(), other=[[1]] * 4, label=["a"] * 4)
        np.testing.assert_array_equal(read_array(both, ".parquet"), rows)

    def test_columns_of_numbers_are_a_row(self):
        found = read_array(self.file(a=[1.5, 2.5], b=[3, 4]), ".parquet")
        np.testing.assert_array_equal(found, [[1.5, 3], [2.5, 4]])

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"a": ["x"], "b": ["y"]}, "Python objects, which are never unpickled"),
            ({"x": [[1], [1, 2]]}, "the Parquet file cannot be read"),
            ({"a": [[1]], "b": [[2]]}, r"columns of lists \['a', 'b'\]; keep one, or call it 'x'"),
        ],
    )
    def test_other_tables_are_refused(self, columns, words):
        with pytest.raises(ArrayError, match=words):
            read_array(self.file(**columns), ".parquet")

    def test_damaged_files_are_refused(self):
        with pytest.raises(ArrayError, match="the Parquet file cannot be read"):
            read_array(b"PAR1 torn PAR1", ".parquet")


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ArrayError, match=r"needs pyarrow; pip install .*\[parquet\]"):
        read_array(b"", ".parquet")
