"""The command that adds an extra to this installation of fleetledger, from where it came."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

NAME = "fleetledger"


def pip_install(*extras: str, options: str = "") -> str:
    """Return the `pip install` that adds `extras`: of the checkout, wheel or index it came from."""
    wanted = f"[{','.join(extras)}]" if extras else ""
    said = f" {options}" if options else ""
    return f"pip install{said} {_requirement(_origin(), wanted)}"


def _requirement(origin: str, wanted: str) -> str:
    """Return what pip is given for an installation whose `direct_url.json` is `origin`."""
    told = json.loads(origin) if origin else {}
    address = urlsplit(str(told.get("url", "")))
    if address.scheme == "file":
        editable = told.get("dir_info", {}).get("editable", False)
        return f"{'-e ' if editable else ''}'{unquote(address.path)}{wanted}'"
    if address.scheme:
        return f"'{NAME}{wanted} @ {told['url']}'"
    return f"'{NAME}{wanted}'" if wanted else NAME


@lru_cache(maxsize=1)
def _origin() -> str:
    """Return what pip noted of where it took this package from (PEP 610); empty for an index."""
    try:
        return distribution(NAME).read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return ""
