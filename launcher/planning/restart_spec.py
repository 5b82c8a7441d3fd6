"""What a launch leaves on its hosts for its restart, so that it does not need the client that launched it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RestartSpec:
    """`known` is in spec.json on every host; `order` has values of the environment: in memory, on one."""

    known: Mapping[str, Any]
    order: str

    def after_start(self, run_id: str) -> "RestartSpec":
        """Return it for a start that follows that one."""
        return replace(self, known={**self.known, "after": run_id})
