"""`agent resubmit`: counts the images of refused parts again, while no agent runs here.

A refusal is final, so that nothing is sent for ever: the images of a refused part stay counted, and
are in no sum. When the owner has mended what was refused, or two copies of one card have refused
each other, they go into new parts here. What the coordinator holds under the number of a refused
part is taken out first, so that nothing counts twice. What the operator retracted stays away.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.cli.deletion import store_of
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.counting import release_images
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.contributions import PartKey


def resubmit(home: AgentHome) -> str:
    """Let the images of refused parts be counted again; say how many there are.

    Raises `HomeError` while an agent runs, `StoreError` where its database cannot be used.
    """
    with store_of(home) as store:
        if store is None:
            return "no agent has run here yet"
        records, retracted = store.load(), store.retracted_parts()
        refused = [key for key, part in records.parts.items() if part.state == "refused"]
        again = tuple(key for key in refused if key not in retracted)
        kept = len(refused) - len(again)
        said = f"; {kept} that the operator retracted stay away" if kept else ""
        if not again:
            return f"nothing was refused here that could be given again{said}"
        images = _images_of(records, again)
        store.commit(records, (parts_given_again(again),))
    return (
        f"{count_of(images, 'image')} of {count_of(len(again), 'refused part')} "
        f"{agree(images, 'is', 'are')} counted again and given when the agent runs{said}"
    )


def parts_given_again(keys: tuple[PartKey, ...]) -> Durable:
    """Count the images of refused parts again: they go into new parts."""

    def write(draft: Draft) -> None:
        for key in keys:
            release_images(draft, key)
            draft.parts[key] = replace(draft.parts[key], state="withdrawn", payload=None)

    return Durable(write)


def _images_of(records: AgentRecords, keys: tuple[PartKey, ...]) -> int:
    wanted = set(keys)
    return sum(item.key in wanted for of in records.counted.values() for item in of.values())
