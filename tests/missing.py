"""What tests do where something that they need is missing: they are skipped, or under RPMODELS_REQUIRE=1 they fail."""

import os
from typing import Any

DOES_NOT_APPLY = "does not apply"
"""How the reason of a skip begins that nothing installed would change."""
OF_OTHERS = "SCIPY_ARRAY_API is not set"
"""scikit-learn's checks of arrays of other libraries, which it skips by itself."""


def as_failure(report: Any) -> None:
    """Turn the report of a skipped test into that of a failed one, where everything was promised to be there."""
    required = os.environ.get("RPMODELS_REQUIRE", "") not in ("", "0")
    if not required or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if DOES_NOT_APPLY not in reason and OF_OTHERS not in reason:
        report.outcome = "failed"
        report.longrepr = f"RPMODELS_REQUIRE is set, and this was skipped: {reason}"
