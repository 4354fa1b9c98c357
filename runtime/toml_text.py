"""One value as TOML, for files whose comments are written by hand around it."""

from __future__ import annotations

from typing import Any

import tomli_w

_KEY = "value"


def toml_value(value: Any) -> str:  # noqa: ANN401 - whatever TOML can hold
    """Return what stands behind `key = ` for a text, number, truth, or list of them.

    The law: `tomllib.loads(f"key = {toml_value(value)}")["key"] == value`.
    """
    return tomli_w.dumps({_KEY: value}).removeprefix(f"{_KEY} = ").removesuffix("\n")
