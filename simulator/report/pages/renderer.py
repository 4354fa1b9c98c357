"""Fill the templates of this folder; everything that comes from names is escaped."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shown:
    """A picture in a page."""

    name: str
    """Of the file beside the page."""
    title: str
    caption: str
    png: bytes
    natural: bool = False
    """Whether its colours mean themselves, so that a dark page leaves them as they are."""

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode('ascii')}"


def render(template: str, **content: Any) -> str:  # noqa: ANN401 - a template takes anything
    """Return a page; a name that the template knows and `content` lacks is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - an extra

    environment = Environment(
        loader=PackageLoader("fleetledger.simulator.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**content)
