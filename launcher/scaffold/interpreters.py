"""The Python environments of a host, and which of them trains."""

from collections.abc import Sequence

from launcher import safe_json
from launcher.config.inventory import HostEntry
from launcher.errors import AgentGarbage, GpulaunchError
from launcher.remote.agent import Open
from launcher.remote.fanout import fanout
from launcher.remote.programs import onhost_source, stdin_for
from launcher.remote.shell_errors import last_lines, no_answer
from launcher.text import one_line
from launcher.transports.base import Completed
from preflight.frozen import dataclass

_MARKER = b"\nGPULAUNCH-PYTHONS-1 "
_ANSWER_S = 120.0


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter on a host; versions are "" for what it does not have."""

    path: str
    python: str
    torch: str = ""
    accelerate: str = ""
    transformers: str = ""

    @property
    def trains(self) -> bool:
        """Whether a launch can start ranks with it."""
        return bool(self.torch and self.accelerate)

    @property
    def words(self) -> str:
        """What it has, for people."""
        packages = (
            ("torch", self.torch),
            ("accelerate", self.accelerate),
            ("transformers", self.transformers),
        )
        have = [f"{name} {version}" for name, version in packages if version]
        return ", ".join([f"Python {self.python}", *(have or ["no torch, no accelerate"])])


def look(
    entries: Sequence[HostEntry], opener: Open, *, width: int
) -> list["tuple[Environment, ...] | GpulaunchError"]:
    """Return the environments of each host, or why it could not be asked.

    The system's interpreter is asked first: the one that hosts.yaml names may be what is wrong.
    """

    def one(entry: HostEntry) -> tuple[Environment, ...]:
        with opener(entry) as connection:
            for python in ("python3", entry.python):
                argv, stdin = stdin_for(
                    python, onhost_source("find_interpreters"), b"", name="find_interpreters.py"
                )
                done = connection.run(argv, stdin=stdin, timeout_s=_ANSWER_S, max_output=32 << 20)
                if done.exit_status == 0:
                    break
        return _read(entry.name, python, done)

    return fanout(one, entries, width=width)


def best(found: Sequence[Environment]) -> Environment | None:
    """Return the one to take: it trains, has transformers if any of them has; the first of equals."""
    able = [each for each in found if each.trains]
    return max(able, key=lambda each: bool(each.transformers), default=None)


def _read(host: str, python: str, done: Completed) -> tuple[Environment, ...]:
    line = (b"\n" + done.stdout).rpartition(_MARKER)[2].partition(b"\n")[0]
    try:
        rows: list[dict[str, str]] = safe_json.parse(line)["found"]
        names = ("path", "python", "torch", "accelerate", "transformers")
        return tuple(Environment(*(one_line(str(row[name])) for name in names)) for row in rows)
    except (ValueError, KeyError, TypeError):
        refusal = no_answer(host, python, done.exit_status, stderr=done.stderr, noise=done.stdout)
        said = last_lines(done.stderr) or "it said nothing"
        message = f"looking for Python environments ended without an answer: {said}"
        raise refusal or AgentGarbage(host, message) from None
