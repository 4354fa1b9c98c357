"""What a payload may look like under an assignment: its tensors and its size."""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.learning.numerics.triangles import triangle_size
from fleetledger.methods.statistics.class_counts import most_classes
from fleetledger.methods.stsa.assignment import TRIANGLE_BITS, StsaAssignment
from fleetledger.methods.stsa.settings import Form
from fleetledger.schemas.bitpacking import packed_size
from fleetledger.schemas.contributions import MAX_PAYLOAD_BYTES
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.tensor_header import MAX_HEADER_BYTES
from fleetledger.schemas.tensors import PACKED, Expected, UpTo


def expected_tensors(
    form: Form, assignment: StsaAssignment, *, dealt: bool = False, members: int = 1
) -> Mapping[str, Expected]:
    """Return the tensors of a payload; raise `TensorError` for a form that is not allowed.

    `dealt` says that its rows name their groups; it is the sum of the parts of `members`.
    """
    allowed = assignment.settings.allowed_forms
    if form not in allowed:
        ways = " or ".join(allowed)
        raise TensorError(f"form: {form!r} is not allowed in this fleet; give {ways}")
    columns, classes = assignment.columns, UpTo(most_classes(assignment, members))
    if form == "estimated":
        rows = UpTo(_most_rows(assignment))
        sums = {
            "groups_per_class": Expected("int64", (classes,)),
            "group_counts": Expected("int64", (rows,)),
            "group_sums": Expected(PACKED, (rows, columns)),
        }
        return sums | ({"row_groups": Expected("int64", (rows,))} if dealt else {})
    expected = {
        "counts": Expected("int64", (classes,)),
        "correlation": Expected(PACKED, (classes, columns)),
    }
    if form == "exact":
        return expected | {"gram": Expected(PACKED, (triangle_size(columns),))}
    return expected | {
        "factor": Expected(PACKED, (UpTo(triangle_size(columns)),)),
        "row_exponents": Expected("int8", (UpTo(columns),)),
    }


def payload_limit(assignment: StsaAssignment, members: int = 1) -> int:
    """Return the most bytes that an honest payload, or the sum of so many, can have."""
    columns, classes = assignment.columns, most_classes(assignment, members)
    values = 0
    if set(assignment.settings.allowed_forms) - {"estimated"}:
        values = triangle_size(columns) + classes * columns
    if "estimated" in assignment.settings.allowed_forms:
        values = max(values, _most_rows(assignment) * columns)
    counts = 8 * (classes + 2 * _most_rows(assignment))
    most = packed_size(values, TRIANGLE_BITS) + counts + columns + 2 * MAX_HEADER_BYTES
    return min(most, MAX_PAYLOAD_BYTES)


def _most_rows(assignment: StsaAssignment) -> int:
    """Every row of a part has a sample in it."""
    most = assignment.settings.max_samples_per_part
    return min(most, most_classes(assignment) * assignment.settings.groups)
