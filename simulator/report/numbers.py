"""Numbers as people read them: percent, bytes, seconds, with their unit."""

from __future__ import annotations

from fleetledger.simulator.metrics.metric import Unit
from fleetledger.simulator.metrics.over_seeds import PairedDifference, Summary

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_SECONDS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
NOTHING = "–"
_GLUE = "\u00a0"
"""Between a number and its unit: a space at which no line is broken."""


def scale_of(unit: Unit, value: float) -> tuple[float, str]:
    """Return what to divide by and the unit's sign, so that `value` reads well."""
    if unit in ("share", "points"):
        return 0.01, "%" if unit == "share" else "points"
    if unit == "bytes":
        return byte_scale(value)
    if unit == "seconds":
        return second_scale(value)
    return 1.0, {"mebibytes": "MiB", "number": ""}.get(unit, unit)


def byte_scale(value: float) -> tuple[float, str]:
    """Return the largest of B, KiB, MiB, GiB and TiB that is not above `value`."""
    power = 0
    while abs(value) >= 1024 ** (power + 1) and power < len(_BYTES) - 1:
        power += 1
    return float(1024**power), _BYTES[power]


def second_scale(value: float) -> tuple[float, str]:
    """Return seconds up to two minutes, then minutes, hours and days."""
    for seconds, sign in _SECONDS:
        if abs(value) >= 2 * seconds:
            return seconds, sign
    return 1.0, "s"


def show(value: float | None, unit: Unit, *, sign: bool = False) -> str:
    """Return a value with its unit; `sign` puts a plus before what is not negative."""
    if value is None:
        return NOTHING
    scale, name = scale_of(unit, value)
    return f"{digits(value / scale, unit, sign=sign)}{_with(name)}"


def show_summary(summary: Summary | None, unit: Unit) -> str:
    """Return mean ± deviation with their unit; the mean alone of one seed."""
    if summary is None:
        return NOTHING
    if summary.deviation is None:
        return show(summary.mean, unit)
    scale, name = scale_of(unit, summary.mean)
    mean, deviation = summary.mean / scale, summary.deviation / scale
    return f"{digits(mean, unit)} ± {digits(deviation, unit)}{_with(name)}"


def show_interval(summary: Summary | None, unit: Unit) -> str:
    """Return the mean, and its 95 % interval where there is one."""
    if summary is None:
        return NOTHING
    half = summary.half_width
    if half is None:
        return show(summary.mean, unit)
    scale, name = scale_of(unit, summary.mean)
    mean, low, high = (
        digits(value / scale, unit)
        for value in (summary.mean, summary.mean - half, summary.mean + half)
    )
    return f"{mean} [{low}, {high}]{_with(name)}"


def show_difference(difference: PairedDifference | None, unit: Unit) -> str:
    """Return the difference with its sign, and the 95 % interval where there is one."""
    if difference is None:
        return NOTHING
    unit = "points" if unit == "share" else unit
    largest = max(
        abs(x) for x in (difference.mean, difference.low, difference.high) if x is not None
    )
    scale, name = scale_of(unit, largest)
    mean = digits(difference.mean / scale, unit, sign=True)
    if difference.low is None or difference.high is None:
        return f"{mean}{_with(name)}"
    low = digits(difference.low / scale, unit, sign=True)
    high = digits(difference.high / scale, unit, sign=True)
    return f"{mean} [{low}, {high}]{_with(name)}"


def _with(name: str) -> str:
    """Return a unit as it follows a number."""
    return f"{_GLUE}{name}" if name else ""


def percent(value: float | None) -> str:
    """Return a share in percent, without its sign; for columns whose head has it."""
    return NOTHING if value is None else f"{100 * value:.2f}"


def count(value: float) -> str:
    """Return a whole number with separators."""
    return f"{value:,.0f}"


def digits(value: float, unit: Unit, *, sign: bool = False) -> str:
    """Return a scaled value alone, with as many places as its unit and size deserve."""
    form = "+" if sign else ""
    if unit in ("share", "points"):
        return f"{value:{form}.2f}"
    if unit in ("samples", "images", "mebibytes") and value == round(value):
        return f"{value:{form},.0f}"
    if unit == "number":
        return f"{value:{form},.4g}"
    places = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:{form},.{places}f}"
