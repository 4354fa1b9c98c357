"""Print what a change costs who lives in the house: files, arrows, sizes.

Nothing is run, the source alone is read; another checkout can be given, such as a git worktree of
another commit.

    python -m benchmarks.house.run [--root FOLDER] [--each]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.house.kinds import ROOT, entry_kinds, files_naming
from benchmarks.house.programs import assemblies
from benchmarks.house.shelves import arrows, arrows_up
from benchmarks.house.source import Source


def figures(source: Source) -> list[tuple[str, str]]:
    """Return every figure with what it is of."""
    kinds, back_up = entry_kinds(source), arrows_up(source)
    named = [len(files_naming(source, kind, name)) for kind, name in kinds.items()]
    lines = [file.lines for file in source.files.values()]
    return [
        ("files that name a kind of entry, mean", f"{statistics.mean(named):.2f}"),
        ("the same, median and most", f"{statistics.median(named):g}, {max(named)}"),
        ("kinds of entry", f"{len(kinds)}"),
        (
            "imports back up within coordinator",
            f"{len(back_up)} of {len(arrows(source))}",
        ),
        ("places that put a program together", f"{len(assemblies(source))}"),
        ("files", f"{len(lines)}"),
        ("lines", f"{sum(lines):,}"),
        ("lines of a file, median and most", f"{statistics.median(lines):g}, {max(lines)}"),
    ]


def details(source: Source) -> list[tuple[str, str]]:
    """Return what the figures are made of: every kind with its files, arrows, places."""
    kinds = entry_kinds(source)
    naming = {kind: files_naming(source, kind, name) for kind, name in kinds.items()}
    return [
        *((f"{kind} ({len(files)})", " ".join(files)) for kind, files in sorted(naming.items())),
        *(("back up", f"{one} -> {other}") for one, other in arrows_up(source)),
        *(("put together", module) for module in assemblies(source)),
    ]


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows as a table of Markdown."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"| {name:{width}} | {value} |" for name, value in rows)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout")
    parser.add_argument("--each", action="store_true", help="name kinds, arrows and places too")
    given = parser.parse_args()
    source = Source.read(given.root)
    print(table(figures(source) + (details(source) if given.each else [])))


if __name__ == "__main__":
    main()
