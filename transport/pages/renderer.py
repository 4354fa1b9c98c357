"""Templates become HTML. Every text is escaped, and what cannot be seen is written out.

A program has folders `templates` and `static`; what it lacks there is taken from those beside this
file: the frame around a page, coming in, problems, the sheet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from fleetledger.runtime.times import clock_time
from fleetledger.transport.pages import words

SHARED = "fleetledger.transport.pages"
_STATIC = "static"


class PageTemplates:
    """The templates of a program, and the files that stand beside them."""

    def __init__(
        self,
        package: str,
        filters: Mapping[str, Any] | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        """Add `filters` and `names` to the words and times that every template knows."""
        self._package = package
        self._filters = filters or {}
        self._names = names or {}
        self._urls: dict[str, str] = {}

    def draw(self, template: str, **values: object) -> str:
        """Return a page as HTML; a name that the template uses and nobody gave is an error."""
        return self._environment.get_template(template).render(**values)

    def static_url(self, name: str) -> str:
        """Return the address of a file beside the templates, which changes with its content."""
        if name not in self._urls:
            digest = hashlib.sha256(self._file(name).read_bytes()).hexdigest()
            self._urls[name] = f"/static/{name}?v={digest[:12]}"
        return self._urls[name]

    def mount(self) -> Mount:
        """Return the route of all files beside the templates."""
        return Mount("/static", _Static(directory=self._folders[0], packages=[(SHARED, _STATIC)]))

    def _file(self, name: str) -> Path:
        return next(path for folder in self._folders if (path := folder / name).is_file())

    @cached_property
    def _folders(self) -> tuple[Path, ...]:
        found = (find_spec(package) for package in (self._package, SHARED))
        return tuple(Path(spec.origin).parent / _STATIC for spec in found if spec and spec.origin)

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=ChoiceLoader([PackageLoader(self._package), PackageLoader(SHARED)]),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=words.visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters.update({**_FILTERS, **self._filters})
        shared = {"static_url": self.static_url, "plural": words.plural, "day": words.day}
        environment.globals.update({**shared, **self._names})
        return environment


class _Static(StaticFiles):
    """Files beside the templates; an address that names their content keeps for long."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


_FILTERS: Mapping[str, Any] = {
    "number": words.number,
    "percent": words.percent,
    "size": words.size,
    "moment": words.moment,
    "clock": words.clock,
    "short_time": words.short_time,
    "near": clock_time,
    "iso": words.iso,
    "long": words.long,
    "coded": words.coded,
    "visible": words.visible,
}
