"""The forms that an update's numbers can have: bytes, and the integers that are summed.

    int32   the weights, in steps of the grid
    int16   how far they have moved from what was sent, in steps of the answer's own, and the
            exponents of these steps, one for each tensor in the order of their names
    clipped how far they have moved, int32, no longer than a clip (`learning.numerics.clipping`);
            with noise, where the device adds it

All are files of tensors (`schemas.tensors`), with one for each float tensor of the network. All
updates of a round begin with the same header, and what follows are flat arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import SEEK_CUR, BytesIO
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.clipping import ClippedGrid, Steps64
from fleetledger.learning.numerics.differences import DifferenceGrid, Differences
from fleetledger.learning.numerics.grids import Grid, Integers
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.tensor_header import TensorEntry, TensorHeader
from fleetledger.schemas.tensors import Expected, read_tensors

Arrays = Mapping[str, npt.NDArray[Any]]

Upload = Literal["int32", "int16"]
"""A setting of methods whose answers are weights."""

_EXPONENTS = "steps/exponents"
_INT32, _INT16 = np.dtype("<i4"), np.dtype("<i2")
_COPIED_BYTES = 1 << 18
"""Up to here it takes less to copy numbers into an answer than to make room for them in it."""

Number = TypeVar("Number", np.int16, np.int32)


class UpdateForm(Protocol):
    """A way to write an answer."""

    sum_form: str
    """What its exact sum is called where that is hashed."""
    steps_from_sent: bool
    """Whether its integers count from the weights that were sent, or from zero."""
    rounds_singly: bool
    """Whether each value is rounded by itself, as an accelerator does it."""

    @property
    def grid(self) -> Grid:
        """The grid of the integers that are summed."""

    @property
    def limit_bytes(self) -> int:
        """How large an answer may be without its header."""

    def encode(self, arrays: Arrays, noise_seed: bytes = b"") -> bytes:
        """Return an answer; raise `NetworkError` and `RangeError` by name.

        Noise is drawn from the seed, where the device adds some.
        """

    def noise(self, seed: bytes) -> Steps64 | None:
        """Return what the coordinator adds to the sum (n,); None for nothing."""

    def framed(self, content: npt.NDArray[np.uint8]) -> bytes:
        """Return an answer of what follows its header: `limit_bytes` that were made elsewhere."""

    def values(self, body: bytes) -> Integers:
        """Return the integers of an answer (n,), as the grid's flat array.

        Raises `SchemaError` and `LearningError` for what is none.
        """


class _Int32Form:
    """What forms share that send the flat array of a grid as int32."""

    def __init__(self, grid: Grid) -> None:
        shapes = grid.shapes
        self.limit_bytes = 4 * grid.size
        self._grid = grid
        self._expected = {name: Expected("int32", shape) for name, shape in shapes.items()}
        self._header = _header(
            {name: TensorEntry("int32", shape) for name, shape in shapes.items()}
        )

    def framed(self, content: npt.NDArray[np.uint8]) -> bytes:
        """Return an answer of the bytes of its flat array."""
        return b"".join((self._header, content.data))

    def _read(self, body: bytes) -> Integers:
        if body.startswith(self._header):
            _check_length(body, self._header, self.limit_bytes)
            return _native(np.frombuffer(body, _INT32, offset=len(self._header)), np.int32)
        tensors = read_tensors(body, self._expected, len(body)).tensors
        return _in_a_row(tensors, self._grid)


class WholeWeights(_Int32Form):
    """The weights themselves, int32."""

    sum_form = "weights-sum-1"
    steps_from_sent = False
    rounds_singly = True

    def __init__(self, sent: Arrays) -> None:
        self.grid = WeightGrid.around(sent)
        super().__init__(self.grid)

    def encode(self, arrays: Arrays, noise_seed: bytes = b"") -> bytes:
        """Return the header and the grid's flat array, a large one rounded into its place."""
        if self.limit_bytes <= _COPIED_BYTES:
            return b"".join((self._header, _little_endian(self.grid.flat(arrays))))
        whole = BytesIO()
        whole.write(self._header)
        whole.seek(self.limit_bytes - 1, SEEK_CUR)
        whole.write(bytes(1))  # makes room up to here
        room = np.frombuffer(whole.getbuffer(), "<i4", offset=len(self._header))
        self.grid.flat(arrays, room)
        del room  # or the bytes would be copied below
        return whole.getvalue()

    def noise(self, seed: bytes) -> Steps64 | None:
        """Return None: the sum is exact."""
        return None

    def values(self, body: bytes) -> Integers:
        """Return the integers of an answer."""
        values = self._read(body)
        self.grid.check_flat(values)
        return values


class MovedWeights:
    """How far the weights have moved, int16, in steps of the answer's own."""

    sum_form = "differences-sum-1"
    steps_from_sent = True
    rounds_singly = True

    def __init__(self, sent: Arrays) -> None:
        self.grid = DifferenceGrid.around(sent)
        shapes = self.grid.shapes
        exponents = TensorEntry("int32", (len(shapes),))
        self._first = exponents.size
        self.limit_bytes = self._first + 2 * self.grid.size
        self._expected = {name: Expected("int16", shape) for name, shape in shapes.items()}
        self._expected[_EXPONENTS] = Expected("int32", exponents.shape)
        entries = {name: TensorEntry("int16", shape) for name, shape in shapes.items()}
        self._header = _header(entries | {_EXPONENTS: exponents})

    def encode(self, arrays: Arrays, noise_seed: bytes = b"") -> bytes:
        """Return the header, the exponents and the flat array of differences."""
        moved = self.grid.encode(arrays)
        parts = _little_endian(moved.exponents), _little_endian(moved.values)
        return b"".join((self._header, *parts))

    def noise(self, seed: bytes) -> Steps64 | None:
        """Return None: the sum is exact."""
        return None

    def framed(self, content: npt.NDArray[np.uint8]) -> bytes:
        """Return an answer of the bytes of its exponents and its flat array."""
        return b"".join((self._header, content.data))

    def values(self, body: bytes) -> Integers:
        """Return the integers of an answer, in the finest steps."""
        return self.grid.expand(self._read(body))

    def _read(self, body: bytes) -> Differences:
        if body.startswith(self._header):
            _check_length(body, self._header, self.limit_bytes)
            start, count = len(self._header), self._first // _INT32.itemsize
            exponents = _native(np.frombuffer(body, _INT32, count, start), np.int32)
            moved = np.frombuffer(body, _INT16, offset=start + self._first)
            return Differences(exponents, _native(moved, np.int16))
        tensors = read_tensors(body, self._expected, len(body)).tensors
        return Differences(tensors[_EXPONENTS], _in_a_row(tensors, self.grid))


class ClippedMoves(_Int32Form):
    """How far the weights have moved, int32, no longer than the clip."""

    sum_form = "clipped-sum-1"
    steps_from_sent = True
    rounds_singly = False

    def __init__(self, sent: Arrays, privacy: UpdatePrivacy) -> None:
        self.grid = ClippedGrid.around(sent, privacy.clip)
        self._own, self._central = (
            share * self.grid.bound for share in (privacy.own, privacy.central)
        )
        super().__init__(self.grid)

    def encode(self, arrays: Arrays, noise_seed: bytes = b"") -> bytes:
        """Return the header and the clipped flat array, with the device's own noise."""
        values = self.grid.clipped(arrays)
        if self._own:
            drawn = self.grid.noise(_seed(noise_seed, "a device"), self._own)
            values = (values + drawn).astype(np.int32)
        return b"".join((self._header, _little_endian(values)))

    def noise(self, seed: bytes) -> Steps64 | None:
        """Return the coordinator's noise (n,); None where it adds none."""
        if not self._central:
            return None
        return self.grid.noise(_seed(seed, "the coordinator"), self._central)

    def values(self, body: bytes) -> Integers:
        """Return the integers of an answer; one without noise is no longer than the clip."""
        values = self._read(body)
        if not self._own:
            self.grid.check_length(values)
        return values


FORMS: Mapping[Upload, Callable[[Arrays], UpdateForm]] = {
    "int32": WholeWeights,
    "int16": MovedWeights,
}
"""Forms by the name that settings give them, made for the weights that were sent."""


def _seed(seed: bytes, who: str) -> bytes:
    """Return the seed; raise `RangeError` for none, since noise that all know hides nothing."""
    if not seed:
        raise RangeError(f"noise_seed: {who} adds noise and was given none; draw 32 bytes")
    return seed


def _header(entries: dict[str, TensorEntry]) -> bytes:
    return TensorHeader(entries, {}).encode()


def _little_endian(numbers: npt.NDArray[Any]) -> memoryview:
    return numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).data


def _check_length(body: bytes, header: bytes, size: int) -> None:
    """Raise `TensorError` where what follows the header has another size."""
    if len(body) != len(header) + size:
        raise TensorError(f"body: {len(body)} bytes; give {len(header) + size}, the whole answer")


def _native(stored: npt.NDArray[Any], kind: type[Number]) -> npt.NDArray[Number]:
    return stored if stored.dtype.isnative else stored.astype(kind)


def _in_a_row(tensors: Arrays, grid: Grid) -> npt.NDArray[Any]:
    return np.concatenate([tensors[name].reshape(-1) for name in grid.places])
