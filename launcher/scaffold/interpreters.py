"""The Python environments of a host, and which of them trains."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, GpulaunchError, LoginShellDisabled, PythonNotFound
from launcher.remote import rpc
from launcher.remote.agent import OpenConnection
from launcher.remote.fanout import fanout
from launcher.text import one_line
from launcher.transports.base import Connection
from preflight.frozen import dataclass

_NAME = "the search for Python environments"
_ANSWER_S = 120.0


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter on a host; versions are "" for what it does not have."""

    path: str
    python: str
    torch: str = ""
    accelerate: str = ""
    transformers: str = ""

    @property
    def describe(self) -> str:
        """What it has, for people."""
        packages = (
            ("torch", self.torch),
            ("accelerate", self.accelerate),
            ("transformers", self.transformers),
        )
        have = [f"{name} {version}" for name, version in packages if version]
        return ", ".join([f"Python {self.python}", *(have or ["no torch"])])


def list_interpreters(
    entries: Sequence[HostEntry], opener: OpenConnection, *, width: int
) -> list["tuple[PythonEnvironment, ...] | GpulaunchError"]:
    """Return the environments of each host, or why it could not be asked.

    The system's interpreter is asked first: the one that hosts.yaml names may be what is wrong.
    """

    def one(entry: HostEntry) -> tuple[PythonEnvironment, ...]:
        with opener(entry) as connection:
            try:
                answer = _call(connection, "python3", entry)
            except (PythonNotFound, LoginShellDisabled, AgentProtocolError):
                answer = _call(connection, entry.python, entry)
        return environments_in(answer, entry.name)

    return fanout(one, entries, width=width)


def choose_interpreter(found: Sequence[PythonEnvironment]) -> PythonEnvironment | None:
    """Return the one to take: it trains, has accelerate and transformers if any has; the first of equals."""
    able = [each for each in found if each.torch]
    return max(able, key=lambda each: (bool(each.accelerate), bool(each.transformers)), default=None)


def _call(connection: Connection, python: str, entry: HostEntry) -> dict[str, Any]:
    request = {"also": [entry.python]}  # first of equals: what launches take now
    return rpc.call(connection, python, "find_interpreters", request, name=_NAME, timeout_s=_ANSWER_S)


def environments_in(answer: Mapping[str, Any], host: str) -> tuple[PythonEnvironment, ...]:
    """Return what launcher/onhost/find_interpreters.py has answered. Raises AgentProtocolError."""
    names = ("path", "python", "torch", "accelerate", "transformers")
    try:
        return tuple(
            PythonEnvironment(*(one_line(str(row[name])) for name in names)) for row in answer["found"]
        )
    except (KeyError, TypeError):
        raise AgentProtocolError(host, f"the answer of {_NAME} was not understood") from None
