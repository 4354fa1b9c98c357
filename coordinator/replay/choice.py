"""Choice of the recorded models and rounds that an operator wants made again."""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.replay.recipes import (
    AveragedRecipe,
    JudgedRecipe,
    Recipe,
    TakenRecipe,
    recipes,
)
from fleetledger.schemas.count_words import count_of


def everything(ledger: LedgerReader, until: int | None = None) -> list[Recipe]:
    """Return what was made up to an entry, that entry included; raise `CommandError`."""
    if until is not None and until >= ledger.size:
        raise CommandError(
            f"--to: {until} is not in the ledger; it holds "
            f"{count_of(ledger.size, 'entry', 'entries')}"
        )
    return list(recipes(ledger.entries(0, None if until is None else until + 1)))


def newest(made: list[Recipe]) -> list[Recipe]:
    """Return what was made last, with what it was taken from; raise `CommandError` for nothing."""
    if not made:
        raise CommandError("ledger: no model was solved and no round averaged by then")
    return _with_its_round(made[-1], made)


def version(made: list[Recipe], wanted: int) -> list[Recipe]:
    """Return one version, with what it was taken from; raise `CommandError` for none."""
    for recipe in made:
        if (
            not isinstance(recipe, AveragedRecipe | JudgedRecipe)
            and recipe.recorded.version == wanted
        ):
            return _with_its_round(recipe, made)
    raise CommandError(f"--version: {wanted} is not a model; see `fleetledger model list`")


def _with_its_round(recipe: Recipe, made: Iterable[Recipe]) -> list[Recipe]:
    """Return a model and, where a round gave it, that round before it."""
    if not isinstance(recipe, TakenRecipe):
        return [recipe]
    return [*(item for item in made if item.index == recipe.recorded.weights_index), recipe]
