"""Numbers of a run as a pandas DataFrame; pandas is an extra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.named_values import result_rows, round_values
from fleetledger.simulator.metrics.results import RunResults

if TYPE_CHECKING:
    from pandas import DataFrame

FrameKind = Literal["results", "metrics", "devices", "rounds"]


def data_frame(rows: list[dict[str, Any]], whole: tuple[str, ...] = ()) -> DataFrame:
    """Return rows as a DataFrame; `whole` are columns of whole numbers, of which some are missing.

    Raises `RunError` without pandas.
    """
    try:
        import pandas  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise RunError(f"to_frame: pandas is not installed; {pip_install('frames')}") from error
    frame = pandas.DataFrame(rows)
    return frame.astype({name: "Int64" for name in whole if name in frame})


def frame_of(results: RunResults, of: FrameKind) -> DataFrame:
    """Return numbers of a run; raise `RunError` for another kind."""
    if of not in get_args(FrameKind):
        raise RunError(f"to_frame: {of!r}; give one of {', '.join(get_args(FrameKind))}")
    return data_frame(list(_ROWS[of](results)), ("stage",))


def _results(results: RunResults) -> Iterator[dict[str, Any]]:
    for seed, stage, name, value in result_rows(results):
        yield {"seed": seed, "stage": stage, "metric": name, "value": value}


def _metrics(results: RunResults) -> Iterator[dict[str, Any]]:
    for seed, metrics in results.seeds.items():
        yield {"seed": seed, **metrics.headline}


def _devices(results: RunResults) -> Iterator[dict[str, Any]]:
    for seed, metrics in results.seeds.items():
        for device in metrics.devices:
            yield {"seed": seed, **device.model_dump()}


def _rounds(results: RunResults) -> Iterator[dict[str, Any]]:
    for seed, metrics in results.seeds.items():
        for stage in metrics.stages:
            for record in stage.rounds:
                told = {
                    ("round" if name == "number" else name): value
                    for name, value in round_values(record)
                }
                yield {"seed": seed, "stage": stage.stage, **told}


_ROWS = {"results": _results, "metrics": _metrics, "devices": _devices, "rounds": _rounds}
