"""The Python environments of a host, and which of them trains."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, GpulaunchError, LoginShellDisabled, PythonNotFound
from launcher.onhost.find_interpreters import SEARCH_PATHS
from launcher.remote import rpc
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import fanout
from launcher.terminal.slow_hosts import name_slow_hosts
from launcher.text import one_line
from launcher.transports.base import Connection
from preflight.frozen import dataclass

_NAME = "the search for Python environments"
_ANSWER_S = 120.0
_OLDEST = (3, 9)  # what gpulaunch's own programs need: an older environment cannot be chosen, torch or not
_ON_PATH = ("python3", *(f"python3.{minor}" for minor in range(15, 8, -1)), "python")
# Prints the first interpreter that starts and is new enough; read by sh on stdin, so no login shell reads it.
_SEARCH = """\
for python in {names} $(for prefix in {prefixes} $(cat ~/.conda/environments.txt 2>/dev/null)
do echo "$prefix/bin/python"; done)
do
  if "$python" -I -c "import sys; sys.exit(sys.version_info < (3, 9))" </dev/null >/dev/null 2>&1
  then echo "{mark}$python"; exit; fi
done
"""
_MARK = "gpulaunch-python "
_MAX_OUTPUT = 1 << 20  # bytes of what a login shell prints before it


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter on a host; versions are "" for what it does not have."""

    path: str
    python: str
    torch: str = ""
    accelerate: str = ""
    transformers: str = ""
    beside_gpus: bool = False  # its host shows an NVIDIA GPU, usable or not

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

    @property
    def misses_gpus(self) -> bool:
        """Whether its torch is a build for CPUs, by the local version of its wheel, on a host with GPUs."""
        return self.beside_gpus and self.torch.endswith("+cpu")

    @property
    def is_too_old(self) -> bool:
        """Whether gpulaunch's own programs cannot run on it."""
        numbers = self.python.split(".")[:2]
        return all(each.isdecimal() for each in numbers) and tuple(map(int, numbers)) < _OLDEST


def list_interpreters(
    entries: Sequence[HostEntry], opener: OpenConnection, *, width: int
) -> list["tuple[PythonEnvironment, ...] | GpulaunchError"]:
    """Return the environments of each host, or why it could not be asked.

    The system's interpreter is asked first: the one that hosts.yaml names may be what is wrong. Where neither
    is one, or both are too old, sh looks for any that can be asked.
    """

    def one(entry: HostEntry) -> tuple[PythonEnvironment, ...]:
        with opener(entry) as connection:
            try:
                answer = _call(connection, "python3", entry)
            except (PythonNotFound, LoginShellDisabled, AgentProtocolError):
                try:
                    answer = _call(connection, entry.python, entry)
                except PythonNotFound as failure:
                    answer = _call(connection, _search(connection, failure), entry)
        return parse_environments(answer, entry.name)

    return fanout(one, entries, width=width, on_slow=name_slow_hosts)


def choose_interpreter(found: Sequence[PythonEnvironment]) -> PythonEnvironment | None:
    """Return the one to take: it trains, has accelerate and transformers if any has; the first of equals.

    One whose torch can use the GPUs of its host comes before all others.
    """
    able = [each for each in found if each.torch and not each.is_too_old]
    return max(
        able,
        key=lambda each: (not each.misses_gpus, bool(each.accelerate), bool(each.transformers)),
        default=None,
    )


def _search(connection: Connection, failure: PythonNotFound) -> str:
    """Return an interpreter that can be asked, by its path or its name on PATH. Raises PythonNotFound."""
    script = _SEARCH.format(names=" ".join(_ON_PATH), prefixes=" ".join(SEARCH_PATHS), mark=_MARK)
    done = connection.run(("sh",), stdin=script.encode(), timeout_s=_ANSWER_S, max_output=_MAX_OUTPUT)
    _, mark, rest = done.stdout.decode("utf-8", "replace").rpartition(_MARK)
    if not mark:
        raise PythonNotFound(
            failure.host,
            f"{failure.detail}; no Python 3.9 or newer lies in the usual places either",
            f"install one on {failure.host}, or set `python:` of it in hosts.yaml to where one lies",
        )
    return rest.strip()


def _call(connection: Connection, python: str, entry: HostEntry) -> dict[str, Any]:
    request = {"also": [entry.python]}  # first of equals: what launches take now
    return rpc.run_program(connection, python, "find_interpreters", request, name=_NAME, timeout_s=_ANSWER_S)


def parse_environments(answer: Mapping[str, Any], host: str) -> tuple[PythonEnvironment, ...]:
    """Return what launcher/onhost/find_interpreters.py has answered. Raises AgentProtocolError."""
    names = ("path", "python", "torch", "accelerate", "transformers")
    try:
        return tuple(
            PythonEnvironment(
                **{name: one_line(str(row[name])) for name in names}, beside_gpus=answer.get("gpus") is True
            )
            for row in answer["found"]
        )
    except (KeyError, TypeError):
        raise AgentProtocolError(host, f"the answer of {_NAME} was not understood") from None
