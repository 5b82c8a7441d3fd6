"""Words around a command: what enters an environment, only times or detaches, or cannot be taken off."""

import posixpath
import re
from collections.abc import Sequence

from launcher.engines.command_line.records import Environment
from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_RUNNERS = {
    "uv": ("run",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "rye": ("run",),
    "hatch": ("run",),
    "pixi": ("run",),
    "conda": ("run",),
    "mamba": ("run",),
    "micromamba": ("run",),
}
_FLAGS = {
    "uv": {
        *(
            "--frozen",
            "--locked",
            "--no-sync",
            "--active",
            "--exact",
            "--isolated",
            "--all-extras",
            "--no-dev",
        ),
        *(
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "--offline",
            "--no-project",
            "--no-config",
            "--dev",
            "--all-groups",
        ),
        *("--no-default-groups", "--all-packages", "-n", "--no-cache", "--no-progress", "--no-editable"),
    },
    "conda": {"--no-capture-output", "--live-stream", "-v", "--verbose", "--debug-wrapper-scripts", "-s"},
    "poetry": {"-q", "--quiet", "-n", "--no-interaction", "--no-ansi", "-v"},
    "pixi": {
        "--frozen",
        "--locked",
        "--no-install",
        "--as-is",
        "-v",
        "-q",
        "-x",
        "--executable",
        "--clean-env",
    },
    "pdm": {"-s", "--site-packages", "--no-site-packages"},
    "pipenv": {"-q", "--quiet", "-v", "--verbose"},
}
_VALUES = {
    "uv": {
        *("--extra", "--group", "--only-group", "--no-group", "--package", "--project", "--directory", "-p"),
        *(
            "--python",
            "--index-url",
            "--default-index",
            "--index",
            "--env-file",
            "--no-extra",
            "-i",
            "--cache-dir",
        ),
    },
    "conda": {"-n", "--name", "-p", "--prefix", "--cwd"},
    "poetry": {"-C", "--directory", "-P", "--project"},
    "pixi": {"-e", "--environment", "--manifest-path"},
    "pdm": {"-p", "--project"},
    "hatch": {"-e", "--env"},
}
_INSTALLS = {"--with", "-w", "--with-editable", "--with-requirements", "--script", "-s"}
_SAME = {"mamba": "conda", "micromamba": "conda", "hatch": "hatch", "rye": "pipenv"}

_TRANSPARENT = {
    "nohup": "nohup: a run continues without its client; --detach leaves at once",
    "time": "time: the report says how long the run took",
    "exec": "exec: gpulaunch starts the processes itself",
    "command": "command: gpulaunch starts the processes itself",
    "setsid": "setsid: a run continues without its client; --detach leaves at once",
    "caffeinate": "caffeinate: a run continues without its client",
    "stdbuf": "stdbuf: python runs unbuffered in every rank",
    "unbuffer": "unbuffer: python runs unbuffered in every rank",
    "ionice": "ionice: the priority of disks is left as it is",
    "nice": "nice: the priority of processes is left as it is",
}
_VALUE_FLAGS = {"time": ("-f", "-o"), "nice": ("-n",), "ionice": ("-c", "-n"), "stdbuf": ("-i", "-o", "-e")}
_REFUSED = {
    "sudo": ("sudo runs the training as root", "leave it out, or name root@HOST with --hosts"),
    "ssh": ("ssh names a host inside the command", "leave ssh HOST out, and write --hosts HOST"),
    "docker": (
        "docker starts a container of its own, in which gpulaunch can verify no rank",
        "leave it out, and name the container in hosts.yaml",
    ),
    "podman": (
        "podman starts a container of its own, in which gpulaunch can verify no rank",
        "leave it out, and name the container in hosts.yaml",
    ),
    "sbatch": (
        "sbatch submits a script, and starts nothing itself",
        "launch the command that is in the script",
    ),
    "salloc": ("salloc asks Slurm for hosts", "run gpulaunch inside of the allocation"),
    "tmux": ("tmux keeps a terminal for the command", "leave it out: --detach lets the run continue"),
    "screen": ("screen keeps a terminal for the command", "leave it out: --detach lets the run continue"),
    "timeout": (
        "timeout would end a launcher and leave ranks behind",
        "leave it out; gpulaunch stop ends a run",
    ),
    "numactl": ("numactl would bind the launcher, and with it all ranks of a host, alike", "leave it out"),
    "taskset": ("taskset would bind the launcher, and with it all ranks of a host, alike", "leave it out"),
}


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a command, and where the command itself starts."""

    start: int
    assignments: tuple[tuple[int, str, Word], ...] = ()  # position, name, value
    unset: tuple[str, ...] = ()
    environment: Environment | None = None
    directory: str = ""
    dropped: tuple[str, ...] = ()


def strip_wrapper(words: Sequence[Word], start: int) -> Around | None:
    """Return what the wrapper at `start` does; None when there is no wrapper.

    Raises CommandRefused for wrappers that gpulaunch cannot honour.
    """
    text = words[start].text
    assignment = _ASSIGNMENT.fullmatch(text)
    if assignment is not None:
        value = Word(assignment[2], words[start].unresolved)
        return Around(start + 1, ((start, assignment[1], value),))
    name = posixpath.basename(text)
    if name in _REFUSED:
        raise CommandRefused(f"{name}: {_REFUSED[name][0]}", _REFUSED[name][1])
    if name == "env":
        return _strip_env(words, start)
    if name in _TRANSPARENT:
        return Around(
            _after_flags(words, start + 1, _VALUE_FLAGS.get(name, ())), dropped=(_TRANSPARENT[name],)
        )
    after = words[start + 1].text if start + 1 < len(words) else ""
    if name == "uvx" or (name == "uv" and after == "tool"):
        raise CommandRefused(
            f"{name} runs a program from an environment made for it", "install it on the hosts"
        )
    if after in _RUNNERS.get(name, ()):
        return _strip_runner(words, start, name)
    return None


def _strip_env(words: Sequence[Word], start: int) -> Around:
    at, unset, assignments, directory = start + 1, [], [], ""
    while at < len(words):
        text = words[at].text
        assignment = _ASSIGNMENT.fullmatch(text)
        if assignment is not None:
            assignments.append((at, assignment[1], Word(assignment[2], words[at].unresolved)))
        elif text in ("-u", "--unset", "-C", "--chdir") and at + 1 < len(words):
            at += 1
            if text in ("-u", "--unset"):
                unset.append(words[at].text)
            else:
                directory = words[at].text
        elif text.startswith("--unset="):
            unset.append(text.partition("=")[2])
        elif text.startswith("-") and text != "--":
            raise CommandRefused(
                f"env {text}: gpulaunch does not start ranks in an empty environment",
                "name the variables: env -u NAME",
            )
        elif text != "--":
            break
        at += 1
    return Around(at, tuple(assignments), tuple(unset), directory=directory)


def _after_flags(words: Sequence[Word], at: int, with_value: Sequence[str]) -> int:
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in with_value else 1
    return at


def _strip_runner(words: Sequence[Word], start: int, tool: str) -> Around:
    kind = _SAME.get(tool, tool)
    flags, with_value = _FLAGS.get(kind, set()), _VALUES.get(kind, set())
    at, given = start + 2, {}
    while at < len(words) and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        if name == "--" and not equals:
            at += 1
            break
        if kind == "uv" and name in _INSTALLS:
            raise CommandRefused(
                f"uv run {name} installs packages for one command",
                "install them in the environment of each host",
            )
        if name in ("-m", "--module") and kind == "uv":
            break
        if name not in flags and name not in with_value:
            raise CommandRefused(f"gpulaunch does not know {name} of {tool} run", "leave it out")
        if name in with_value and not equals:
            at += 1
            value = words[at].text if at < len(words) else ""
        given[name] = value
        at += 1
    name = _first(given, "-n", "--name", "-e", "--environment", "--env")
    path = _first(given, "-p", "--prefix") if kind == "conda" else _first(given, "--project", "-P", "-C")
    environment = Environment(tool, name, path)
    sentence = f"{tool} run: the interpreter is that of each host (python: in hosts.yaml)"
    return Around(
        at,
        environment=environment,
        directory=_first(given, "--directory", "--cwd"),
        dropped=(sentence,),
    )


def _first(given: dict[str, str], *names: str) -> str:
    return next((given[name] for name in names if given.get(name)), "")
