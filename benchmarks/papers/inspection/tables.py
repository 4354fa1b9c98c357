"""Cells of the study as Markdown: a table for each data set, skew and share of bad devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers.footing.markdown import line

_COLUMNS = (
    "attack",
    "cells",
    "refused by intake",
    "set aside, bad / honest",
    "harmful",
    "unlike",
    "found",
    "honest flagged",
    "warning",
    "accuracy before",
    "after",
    "clean",
    "trigger before",
    "after",
)
Cell = dict[str, Any]


def tables(cells: Mapping[str, Cell]) -> str:
    """Return the tables of all cells."""
    rows: dict[tuple[str, str], dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for key, cell in cells.items():
        data, form, skew, _, *attack, share = key.split(", ")
        rows[f"{data}, {form}, {skew}", share][", ".join(attack)].append(cell)
    out = [
        "Devices are shares of all bad or honest ones of the cells, in percent; accuracies and the "
        "trigger's success are means in percent.",
    ]
    for (data, share), attacks in sorted(rows.items(), key=lambda item: _order(item[0])):
        out += [
            "",
            f"{data}, {share} bad devices",
            "",
            line(_COLUMNS),
            "| --- " * len(_COLUMNS) + "|",
        ]
        out += [line(_row(attack, found)) for attack, found in attacks.items()]
    return "\n".join(out) + "\n"


def _order(place: tuple[str, str]) -> tuple[str, int]:
    return place[0], int(place[1].split()[0])


def _row(attack: str, cells: Sequence[Cell]) -> list[str]:
    bad = sum(cell["bad"] for cell in cells)
    honest = sum(40 - cell["bad"] for cell in cells)

    def of_bad(name: str) -> str:
        return _share(sum(cell[name][0] for cell in cells), bad)

    refused = sum(cell["refused"] for cell in cells)
    found = refused + sum(cell["flagged"][0] for cell in cells)
    aside = _share(sum(cell["aside"][1] for cell in cells), honest)
    return [
        attack,
        str(len(cells)),
        _share(refused, bad),
        f"{of_bad('aside')} / {aside}",
        of_bad("harmful"),
        of_bad("unlike"),
        _share(found, bad),
        _share(sum(cell["flagged"][1] for cell in cells), honest),
        f"{sum(cell['warning'] for cell in cells)} of {len(cells)}",
        *(_mean(cells, "accuracy", name) for name in ("before", "after", "clean")),
        *(_mean(cells, "trigger", name) for name in ("before", "after")),
    ]


def _mean(cells: Sequence[Cell], figure: str, name: str) -> str:
    return f"{sum(cell[figure][name] for cell in cells) / len(cells):.1f}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"
