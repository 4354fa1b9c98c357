"""Settings as a commented TOML file: the docstring below a field is the comment above its line.

The law: a file that `commented_toml(settings)` wrote is read as `settings` again.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fleetledger.runtime.field_docs import meaning_of
from fleetledger.runtime.private_file import make_home
from fleetledger.runtime.setting_faults import model_in
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.runtime.toml_text import toml_value
from fleetledger.runtime.whole_file import write_whole

_WIDTH = 98
_WHOLE = (float, float | None)
"""Types for which 5 is the same as 5.0, which is not so of a number or a share."""
Sections = Mapping[str, Mapping[str, Any] | None]


def commented_toml(settings: BaseModel, title: str, brief: Sections | None = None) -> str:
    """Return settings with comments, below a title.

    What is None stands there as a comment with the field's first example. `brief` sections have
    the content that is given here, without comments. Empty ones are named alone, and those that
    are None are left out.
    """
    lines = _lines("", settings, type(settings), brief or {})
    return "\n".join([*_comment(title), "", *lines, ""])


def write_new_settings(
    path: Path, settings: BaseModel, title: str, brief: Sections | None = None
) -> Path:
    """Write `commented_toml` into a home, which is made; return `path`.

    Raises `SettingsError` where there is such a file, or none can be written.
    """
    if path.exists():
        raise SettingsError(f"{path}: exists already; edit it, or choose another --home")
    try:
        make_home(path.parent)
        write_whole(path, commented_toml(settings, title, brief))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _lines(
    path: str, value: BaseModel | None, model: type[BaseModel], brief: Sections
) -> Iterator[str]:
    content = {} if value is None else value.model_dump(mode="json")
    sections = []
    for name, field in model.model_fields.items():
        if name in brief and brief[name] is None:
            continue
        inner, given = model_in(field.annotation), content.get(name)
        if inner is not None or isinstance(given, dict):
            sections.append((name, field, inner))
        else:
            yield from _comment(meaning_of(model, name))
            yield _setting(name, given, field)
    for name, field, inner in sections:
        full, part = f"{path}{name}", getattr(value, name)
        yield ""
        yield from _comment(meaning_of(model, name) or inspect.getdoc(inner))
        if name in brief:
            yield section_toml(full, brief[name]) if brief[name] else f"# [{full}]"
        elif inner is None:
            yield section_toml(full, content[name]) if content[name] else f"[{full}]"
            for key, example in (field.examples or [{}])[0].items() if not content[name] else ():
                yield f"# {key} = {toml_value(example)}"
        else:
            yield f"# [{full}]" if part is None else f"[{full}]"
            yield from _lines(f"{full}.", part, inner, {})


def section_toml(full: str, content: Mapping[str, Any] | None) -> str:
    """Return a section such as `broker.tls` without comments."""
    shown: Any = content
    for name in reversed(full.split(".")):
        shown = {name: shown}
    return tomli_w.dumps(shown).rstrip("\n")


def _setting(name: str, value: Any, field: FieldInfo) -> str:  # noqa: ANN401 - any JSON
    if value is None:
        return f"# {name} = {_on_one_line(field.examples[0]) if field.examples else '...'}"
    if isinstance(value, list):
        return f"{name} = {_on_one_line(value)}"
    whole = field.annotation in _WHOLE and float(value).is_integer()
    return f"{name} = {toml_value(int(value) if whole else value)}"


def _on_one_line(value: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return toml_value(value)


def _comment(text: str | None) -> list[str]:
    words = " ".join((text or "").split())
    return [f"# {line}" for line in textwrap.wrap(words, _WIDTH, break_on_hyphens=False)]
