"""The face of data sets: `fleetledger.Split`, made of what programs and folders have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fleetledger.simulator.datasets.given import GivenSamples, split_of_given
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.sample_folder import load_folder
from fleetledger.simulator.datasets.samples import SampleSet


class OwnSplit(Split[SampleSet]):
    """A data set in two parts that share no sample: to learn from, and to be asked about.

    `of` makes one of arrays, tables, and other libraries' data sets, `folder` of files.
    """

    @staticmethod
    def of(  # noqa: PLR0913 - the face of a data set
        x: Any = None,  # noqa: ANN401 - arrays of any library
        y: Any = None,  # noqa: ANN401
        *,
        train: Any = None,  # noqa: ANN401
        test: Any = None,  # noqa: ANN401
        owners: Any = None,  # noqa: ANN401
        domains: Any = None,  # noqa: ANN401
        class_names: Sequence[str] | None = None,
        test_share: float = 0.2,
        seed: int = 0,
        kind: Literal["pictures", "array", "text"] | None = None,
    ) -> OwnSplit:
        """Return a data set of samples `x` with classes `y`, or of `train` and `test`.

        `x` is an array (N, ...) of NumPy or torch, a list of texts or of Pillow's pictures, a
        DataFrame, a data set of torch or of Hugging Face; `y` has a class per sample, a name or a
        number, or is the name of a column. `train` and `test` are each (x, y), or such a data set;
        otherwise `test_share` of every class becomes the test part, drawn by `seed`.

        `owners` and `domains` have a name or a number per sample; of two parts they are a pair.
        uint8 of shape (N, height, width) or (N, height, width, 3) are pictures unless `kind` says
        "array"; all other numbers are arrays of float32. Raises `DatasetError`.
        """
        given = GivenSamples(owners, domains, class_names, kind)
        whole = None if x is None else (x if y is None else (x, y))
        made = split_of_given(given, whole, (train, test), (test_share, seed))
        return OwnSplit(made.train, made.test)

    @staticmethod
    def folder(
        path: str | os.PathLike[str],
        *,
        test_share: float = 0.2,
        seed: int = 0,
        shape: Sequence[int] | None = None,
    ) -> OwnSplit:
        """Return a data set of files in folders named after their classes.

        The files are pictures, `.txt`, or `.npy`, `.npz` and `.parquet`, of which one may hold many
        samples of `shape`. Below `train` and `test` (or `val`) they are two parts; else
        `test_share` of every class becomes the test part, drawn by `seed`. A `.csv` or `.jsonl`
        file has texts with columns `text` and `label`. Raises `DatasetError`.
        """
        wanted = None if shape is None else tuple(shape)
        made = load_folder(Path(path).expanduser(), test_share, seed, wanted)
        return OwnSplit(made.train, made.test)
