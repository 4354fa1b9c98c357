"""The attacks, by whose key is misused: a line, what is sent, what must come of it.

Rollback, freeze, replay, arbitrary installation, mix-and-match, endless data, wrong keys and stolen
keys are those of The Update Framework and Uptane; the roles are this project's.
"""

from __future__ import annotations

from tests.attacks.file_cases import FILES
from tests.attacks.order_cases import PLACES, ROLLBACK_AND_FREEZE
from tests.attacks.root_cases import COORDINATORS, ROOT
from tests.attacks.signature_cases import FIELDS, SIGNATURES

CASES = (
    *SIGNATURES,
    *FIELDS,
    *ROLLBACK_AND_FREEZE,
    *PLACES,
    *FILES,
    *ROOT,
    *COORDINATORS,
)
