"""What a device says of how well its model does, as columns of the table of devices.

samples   right answers and held-out samples, over all classes
pixels    beside these sums, which are of intersections and unions: the mean IoU, over the
          classes that have one, the background among them
"""

from __future__ import annotations

from sqlite_utils import Database

from coordinator.ledger.entries import Entry


def device_evaluated(db: Database, entry: Entry) -> None:
    """Take in an evaluation; entries of before models of pixels do not say what has a class."""
    db.table("device").update(
        str(entry.device),
        {
            "evaluated_version": entry.body["version"],
            **shares_of(entry),
            "bytes_up": entry.body["bytes_up"],
            "bytes_down": entry.body["bytes_down"],
        },
    )


def shares_of(entry: Entry) -> dict[str, int | float | None]:
    """Return the columns `correct`, `total` and `mean_iou` of an evaluation."""
    results = entry.body["results"].values()
    shares = [result["correct"] / result["total"] for result in results]
    of_pixels = entry.body.get("answers") == "pixels"
    return {
        "correct": sum(result["correct"] for result in results),
        "total": sum(result["total"] for result in results),
        "mean_iou": sum(shares) / len(shares) if of_pixels and shares else None,
    }
