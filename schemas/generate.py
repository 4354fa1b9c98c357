"""Writes docs/protocol: a JSON Schema for each message, an AsyncAPI document, and two pages.

`python -m fleetledger.schemas.generate` writes; with `--check` it only tells what is stale and
exits with 1 then. Run it from the root of the source tree, or name the folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pydantic import BaseModel

from fleetledger.runtime.field_docs import describe_fields
from fleetledger.schemas import asyncapi
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.envelope import Header
from fleetledger.schemas.protocol_pages import envelope_page, readme

FOLDER = Path("docs") / "protocol"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def pages() -> dict[str, str]:
    """Return the text of every generated file by its name."""
    describe_fields()
    texts = {f"{entry.kind}.schema.json": _schema(entry.model) for entry in CATALOGUE}
    return {
        **texts,
        "envelope.schema.json": _schema(Header),
        asyncapi.FILE_NAME: asyncapi.document(),
        "envelope.md": envelope_page(),
        "README.md": readme(),
    }


def stale(folder: Path) -> list[str]:
    """Return the names of files in `folder` that are missing, differ, or belong to no message."""
    texts = pages()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.*")}
    return sorted(name for name in texts.keys() | present if texts.get(name) != present.get(name))


def write(folder: Path) -> list[str]:
    """Bring `folder` up to date and return the names of the files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    changed = stale(folder)
    for name in changed:
        if name in texts:
            (folder / name).write_text(texts[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fleetledger.schemas.generate", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="only tell what is stale")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    names = stale(options.folder) if options.check else write(options.folder)
    verb = "stale" if options.check else "written"
    sys.stdout.writelines(f"{verb}: {options.folder / name}\n" for name in names)
    return 1 if options.check and names else 0


def _schema(model: type[BaseModel]) -> str:
    schema = {"$schema": DIALECT, **model.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.exit(main())
