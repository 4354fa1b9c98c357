"""Tables that fit the terminal: words are never cut, and what has no room stands below as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fleetledger.runtime.command_report import Report
from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.shown_commands import with_homes

Rows = Sequence[Sequence[str]]
_MOST_ROWS = 1_000
"""Rows of a table that people are shown: 10,000 take a quarter of a minute to draw."""
_IN_FRAMES, _PLAIN = 3, 2
"""Characters that a column takes beside its width."""


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table, or say that there are none.

    Where the terminal is too narrow, texts are wrapped between words; a column of texts that has no
    room for its longest word is told line by line below.
    """
    console = console_for_people()
    drawn = table_of(title, columns, rows, console.width)
    console.print(drawn, soft_wrap=True)


def drawn(report: Report, width: int) -> RenderableType:
    """Return a report for people. Texts are not markup, because devices wrote some of them."""
    parts: list[RenderableType] = [Text(with_homes(line)) for line in report.above()]
    for one in report.tables():
        parts.append(table_of(one.title, one.heads, one.rows[:_MOST_ROWS], width))
        if more := len(one.rows[_MOST_ROWS:]):
            parts.append(Text(f"and {more:,} more; a pipe and --json have all"))
    return Group(*parts, *(Text(with_homes(line)) for line in report.below()))


def table_of(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], width: int
) -> RenderableType:
    """Return the same for a terminal of `width` characters; print it with `soft_wrap`.

    Where names alone are too long, the terminal wraps lines, and nothing is lost.
    """
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    if not cells:
        return Text(f"{title}: none")
    framed = widths_within(columns, cells, width - 1, between=_IN_FRAMES)
    if framed is not None:
        return _table(Table(title=title, title_justify="left"), columns, cells, framed)
    kept = kept_columns(columns, cells, width)
    heads, part = [columns[i] for i in kept], [[row[i] for i in kept] for row in cells]
    widths = widths_within(heads, part, width) or least_widths(heads, part)
    plain = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        width=_total(widths, _PLAIN),
    )
    table = _table(plain, heads, part, widths)
    return Group(table, *map(Text, _lines(columns, cells, kept)))


def kept_columns(columns: Sequence[str], cells: Rows, width: int) -> list[int]:
    """Return which columns stay in a table of `width` characters: the widest texts go first."""
    kept = list(range(len(columns)))
    while True:
        part = [[row[i] for i in kept] for row in cells]
        texts = [i for i in kept[1:] if _is_text([row[i] for row in cells])]
        if not texts or widths_within([columns[i] for i in kept], part, width) is not None:
            return kept
        kept.remove(max(texts, key=lambda i: max(len(row[i]) for row in cells)))


def widths_within(
    columns: Sequence[str], cells: Rows, width: int, between: int = _PLAIN
) -> list[int] | None:
    """Return widths of columns that cut no word; None where `width` has no room for that."""
    widths = least_widths(columns, cells)
    wanted = [
        max(map(len, (head, *column)))
        for head, column in zip(columns, _columns(cells), strict=True)
    ]
    spare = width - _total(widths, between)
    if spare < 0:
        return None
    while spare and widths != wanted:
        most = max(range(len(widths)), key=lambda i: wanted[i] - widths[i])
        widths[most] += 1
        spare -= 1
    return widths


def least_widths(columns: Sequence[str], cells: Rows) -> list[int]:
    """Return the widths of the longest words of texts, and of whole names and numbers."""
    return [
        max(map(len, (*_words(head), *_unbroken(column))))
        for head, column in zip(columns, _columns(cells), strict=True)
    ]


def _table(table: Table, columns: Sequence[str], cells: Rows, widths: Sequence[int]) -> Table:
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, width=width, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _lines(columns: Sequence[str], cells: Rows, kept: Sequence[int]) -> Iterator[str]:
    for place in sorted(set(range(len(columns))) - set(kept)):
        yield from (
            f"{columns[0]} {row[0]}, {columns[place]}: {row[place]}" for row in cells if row[place]
        )


def _total(widths: Sequence[int], between: int) -> int:
    return sum(widths) + between * len(widths)


def _columns(cells: Rows) -> list[list[str]]:
    return [list(column) for column in zip(*cells, strict=True)]


def _words(text: str) -> list[str]:
    return text.split() or [""]


def _is_text(column: Sequence[str]) -> bool:
    return any(" " in cell for cell in column)


def _unbroken(column: Sequence[str]) -> list[str]:
    return [word for cell in column for word in _words(cell)]
