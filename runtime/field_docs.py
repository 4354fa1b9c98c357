"""Docs of the fields of models, from the docstrings below them: for pages and JSON Schemas.

Pydantic can read them as each class is made; but it parses the source for that, a sixth of what a
program takes to start, and only what writes documentation asks for them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import get_args

from pydantic import BaseModel

from fleetledger.runtime.strict import Strict


def describe_fields() -> None:
    """Give all fields of the models that are imported by now their descriptions."""
    for model in dict.fromkeys(_innermost_first(Strict.__subclasses__())):
        for name, field in model.model_fields.items():
            if field.description is None:
                field.description = meaning_of(model, name)
        model.model_rebuild(force=True)  # also where it only holds others: it has their schemas


def _innermost_first(models: Iterable[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """Yield models, and those made from them, each after the ones that its fields hold."""
    for model in models:
        for field in model.model_fields.values():
            yield from _innermost_first(_held(field.annotation))
        yield model
        yield from _innermost_first(model.__subclasses__())


def _held(annotation: object) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, Strict):
        yield annotation
    for argument in get_args(annotation):
        yield from _held(argument)


def meaning_of(model: type[BaseModel], field: str) -> str | None:
    """Return the docstring below a field of a model. None where it has none."""
    for base in model.__mro__:
        found = _docstrings(base.__module__).get(base.__qualname__, {}).get(field)
        if found is not None:
            return found
    return None


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings below annotated names of a module's classes, by class and name."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    return {
        node.name: dict(_below(node)) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }


def _below(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(after.value.value)
