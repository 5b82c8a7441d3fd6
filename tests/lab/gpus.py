"""The one seam between the lab and tests.lab.silicon, which simulates GPUs and needs a C compiler."""

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from tests.lab.hosts import LabHost


class Silicon(Protocol):
    """What tests.lab.silicon offers the lab."""

    def install(self, host: "LabHost", profile: str) -> None:
        """Give a running host the GPUs of a profile, named or a file. Called again after a boot."""

    def main(self, arguments: list[str]) -> int:
        """Carry out `python -m tests.lab profile ARGUMENTS`."""


def silicon() -> Silicon:
    """Import tests.lab.silicon only when GPUs are asked for."""
    return cast("Silicon", importlib.import_module("tests.lab.silicon"))
