"""Plots in the making: values on two axes become paths and words in SVG's units, for a template."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LABEL = 15.0
"""Least distance of two labels."""
_LETTER = 6.6
"""Width of a letter of a label, more or less."""
_Point = tuple[float, float]
_MOST_STEPS = 5
"""Of an axis."""


@dataclass(frozen=True)
class PlotLabel:
    """A word in a plot."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    look: str = ""
    """Its class in the style sheet."""


@dataclass(frozen=True)
class PlotPath:
    """A line, an area or a mark."""

    d: str
    look: str
    """Its class in the style sheet."""
    says: str = ""
    """Words where the pointer rests; empty where there are none."""


@dataclass(frozen=True)
class Plot:
    """Everything that is drawn."""

    width: float
    height: float
    text: str
    """The same in words, for who does not see it."""
    low: float
    """Value at the bottom."""
    paths: tuple[PlotPath, ...]
    labels: tuple[PlotLabel, ...]


@dataclass(frozen=True)
class PlotFrame:
    """The size of a plot, and where its axes stand in it."""

    width: float = 520
    height: float = 206
    left: float = 44
    right: float = 430
    top: float = 14
    bottom: float = 176


SMALL = PlotFrame(width=372, height=146, left=44, right=284, bottom=116)
"""Of a plot in a narrow column."""


@dataclass(frozen=True)
class ValueAxis:
    """Values from the bottom to the top, with marks at round ones."""

    low: float
    high: float
    step: float
    unit: str = ""
    """Behind the topmost mark."""

    @classmethod
    def over(
        cls, values: Iterable[float], unit: str = "", *, from_zero: bool = False, least: float = 1
    ) -> ValueAxis:
        """Return an axis with room for all values, whose marks are at least `least` apart."""
        found = [0.0, *values] if from_zero else list(values)
        low, high = min(found, default=0.0), max(found, default=0.0)
        step = round_step(max(high - low, least), _MOST_STEPS, least)
        # A value next to nothing, divided by the step, is nothing.
        low = min(low, step * math.floor(low / step))
        return cls(low, max(high, step * math.ceil(high / step), low + step), step, unit)

    @classmethod
    def of_percent(cls, lowest: float) -> ValueAxis:
        """Return an axis in per cent up to 100, from a multiple of five below the lowest share."""
        low = max(0, 5 * math.floor(20 * lowest - 0.01))
        step = next(size for size in (5, 10, 25, 50) if (100 - low) / size <= 5)
        return cls(low // step * step, 100, step, "%")

    def marks(self) -> list[float]:
        """Return the values of the marks, from below."""
        count = int((self.high - self.low) / self.step + 1e-9)
        return [self.low + self.step * place for place in range(count + 1)]


@dataclass(frozen=True)
class PlotLine:
    """Values that a line joins; None where nothing is known, and the line has a gap."""

    points: Sequence[tuple[float, float | None]]
    label: str = ""
    """Beside its end."""
    look: str = ""
    mark: str = ""
    """`dot` or `square` at each point, or nothing."""

    @property
    def end(self) -> tuple[float, float] | None:
        """The last point that is known."""
        return next(((x, y) for x, y in reversed(self.points) if y is not None), None)


@dataclass
class Drawing:
    """A plot in the making, over `across` from left to right."""

    across: tuple[float, float]
    axis: ValueAxis
    frame: PlotFrame = PlotFrame()
    paths: list[PlotPath] = field(default_factory=list)
    labels: list[PlotLabel] = field(default_factory=list)
    _limits: list[tuple[float, str, str]] = field(default_factory=list)
    """Height of each limit, its word and its look."""
    _drawn: list[tuple[_Point, _Point]] = field(default_factory=list)
    """Pieces of lines."""

    def x(self, value: float) -> float:
        """Return where a value stands from left to right."""
        first, last = self.across
        share = (value - first) / (last - first) if last > first else 0.5
        return round(self.frame.left + share * (self.frame.right - self.frame.left), 1)

    def y(self, value: float) -> float:
        """Return where a value stands from top to bottom."""
        share = (value - self.axis.low) / (self.axis.high - self.axis.low)
        return round(self.frame.bottom - share * (self.frame.bottom - self.frame.top), 1)

    def grid(self) -> None:
        """Draw the marks of the axis, the unit at the topmost."""
        marks = self.axis.marks()
        for at in marks:
            unit = f" {self.axis.unit}" if self.axis.unit and at == marks[-1] else ""
            text, y = f"{at:,.10g}{unit}", self.level(at, "grid")
            self.labels.append(PlotLabel(self.frame.left - 8, y + 4, text, "end"))

    def level(self, value: float, look: str) -> float:
        """Draw a line across, and return where it stands from top to bottom."""
        y = self.y(value)
        self.paths.append(PlotPath(f"M{self.frame.left:g} {y}H{self.frame.right:g}", look))
        return y

    def below(self, ticks: Iterable[tuple[float, str]], look: str = "", line: int = 0) -> None:
        """Write words below the plot, in its first line or a later one."""
        y = self.frame.bottom + 20 + 16 * line
        self.labels += [PlotLabel(self.x(at), y, text, look=look) for at, text in ticks]

    def limit(self, value: float, word: str, look: str = "limit") -> None:
        """Draw a line across with its word: a limit, or what there is at most."""
        self._limits.append((self.level(value, look), word, f"{look}-word"))

    def bars(self, bars: Iterable[tuple[float, float, float, str]], look: str = "column") -> None:
        """Draw bars: from where to where, how high, and what each says."""
        for first, last, value, says in bars:
            left, right = self.x(first), self.x(last)
            wide = max(right - left - 1, 1.5)
            d = f"M{left:g} {self.y(0)}V{self.y(value)}h{wide:.4g}V{self.y(0)}Z"
            self.paths.append(PlotPath(d, look, says))

    def lines(self, lines: Sequence[PlotLine]) -> None:
        """Draw lines, then their marks, and at their ends labels that keep clear of each other."""
        for line in lines:
            self.paths.append(PlotPath(self._joined(line), f"line {line.look}".strip()))
            at = [None if y is None else (self.x(x), self.y(y)) for x, y in line.points]
            self._drawn += [(one, two) for one, two in itertools.pairwise(at) if one and two]
        for line in lines:
            draw = {"dot": dot, "square": square}.get(line.mark)
            if draw is not None:
                self.paths += [
                    PlotPath(draw(self.x(x), self.y(y)), f"dot {line.look}".strip())
                    for x, y in line.points
                    if y is not None
                ]
        ends = [(line, line.end) for line in lines if line.label]
        told = [(self.y(at[1]), self.x(at[0]), line) for line, at in ends if at]
        told.sort(key=lambda item: item[0])
        right = max((x for _, x, _ in told), default=0) + 10
        for y, (*_, line) in zip(apart([y for y, *_ in told]), told, strict=True):
            look = line.look or "strong"
            self.labels.append(PlotLabel(right, round(y + 4, 1), line.label, "start", look))

    def done(self, text: str) -> Plot:
        """Return the plot, with the same in words."""
        frame = self.frame
        words = [self._clear(*limit) for limit in self._limits]
        drawn = tuple(self.paths), (*self.labels, *words)
        return Plot(frame.width, frame.height, text, self.axis.low, *drawn)

    def _clear(self, y: float, word: str, look: str) -> PlotLabel:
        """Return the word of a limit at the first place that no line passes, else above it."""
        wide, left, right = _LETTER * len(word), self.frame.left + 4, self.frame.right - 4
        for x, anchor in ((left, "start"), (right, "end")):
            first = x if anchor == "start" else x - wide
            for base in (y - 4, y + 13):
                box = (first, base - 11, first + wide, base + 1)
                if not any(_passes(one, two, box) for one, two in self._drawn):
                    return PlotLabel(x, base, word, anchor, look)
        return PlotLabel(left, y - 4, word, "start", look)

    def _joined(self, line: PlotLine) -> str:
        path, joined = "", False
        for x, y in line.points:
            if y is not None:
                path += f"{'L' if joined else 'M'}{self.x(x)} {self.y(y)}"
            joined = y is not None
        return path


def dot(x: float, y: float, radius: float = 4) -> str:
    """Return the path of a round mark."""
    around = f"a{radius:g} {radius:g} 0 1 0 "
    return f"M{x - radius:g} {y:g}{around}{2 * radius:g} 0{around}{-2 * radius:g} 0"


def square(x: float, y: float, size: float = 8) -> str:
    """Return the path of a square mark."""
    return f"M{x - size / 2:g} {y - size / 2:g}h{size:g}v{size:g}h{-size:g}z"


def apart(places: Sequence[float], least: float = LABEL) -> list[float]:
    """Return places, which grow, moved as little as keeps each `least` from the next."""
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _first(groups[-1], least) < _last(groups[-2], least) + least:
            last = groups.pop()
            groups[-1] += last
    return [_first(group, least) + least * n for group in groups for n in range(len(group))]


def _passes(one: _Point, two: _Point, box: tuple[float, float, float, float]) -> bool:
    """Return whether a piece of a line, which goes to the right, passes through a box."""
    left, top, right, bottom = box
    (x1, y1), (x2, y2) = one, two
    if x2 < left or x1 > right:
        return False
    slope = (y2 - y1) / (x2 - x1) if x2 > x1 else 0.0
    ends = (y1 + slope * (max(x1, left) - x1), y2 - slope * (x2 - min(x2, right)))
    return min(ends) <= bottom and max(ends) >= top


def scale_from(shares: Iterable[float]) -> float:
    """Return where a scale of shares up to 1 begins: a round share below all of them."""
    return max(0.0, math.floor((min(shares, default=0.0) - 0.02) * 10) / 10)


def round_step(span: float, count: int, least: float = 0.5) -> float:
    """Return a round distance of marks, of which `span` has at most `count`."""
    size = least
    for factor in itertools.cycle((2, 2.5, 2)):
        if span / size <= count:
            return size
        size *= factor
    raise AssertionError  # the cycle has no end


def _first(group: Sequence[float], least: float) -> float:
    return sum(group) / len(group) - least * (len(group) - 1) / 2


def _last(group: Sequence[float], least: float) -> float:
    return _first(group, least) + least * (len(group) - 1)
