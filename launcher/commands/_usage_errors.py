"""A wrong command line, as click finds it, in the words of all other errors: observed, expected, fix."""

import os
import re
import shlex
from collections.abc import Iterable, Sequence

import click

from launcher.config.host_names import NAMES_OF_FILE
from launcher.errors import GpulaunchError
from launcher.text import one_line

_VALUE = r"(?s)'?(.*?)'? is not (?:a valid|in the range|one of)"
_PATH = (
    r"(?s)(?i:file|directory|path) '(.*)'"
    r" (does not exist|is a directory|is a file|is not readable|is not writable)"
)
_EXTRA = r"(?s)Got unexpected extra arguments? \((.*)\)"
_EXTRA_WORDS = {
    "fetch": "a file or directory of the output: --path {0}; a host: --host {0}; other runs: one by one",
    "checks": "gpulaunch checks | grep {0}",
}
"""What a further word of these commands is meant for."""
_OF_COMMANDS = (
    *("-i", "--inventory", "--json", "--hosts", "-c", "--config", "--gpus", "--dry-run", "-y", "--yes"),
    "-v",
)
"""What several commands take, and gpulaunch before its command does not."""
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "python", "python3", "fabric")
"""First words of a command that are not a script of the user."""
_LOGINS = ("ssh", "exec", "shell")
_SHOWN = 100  # characters of a word of the command line
OTHER_NAMES = {
    **dict.fromkeys(("launch", "start", "train", "resume", "restart", "rerun"), "run"),
    **dict.fromkeys(("sync", "rsync", "push", "upload"), "run --sync"),
    **dict.fromkeys(("config", "hosts", "add-host", "setup"), "init"),
    **dict.fromkeys(("status", "list", "ls", "jobs", "runs", "queue", "squeue"), "ps"),
    **dict.fromkeys(("kill", "cancel", "down", "scancel"), "stop"),
    **dict.fromkeys(("check", "doctor", "validate"), "preflight"),
    **dict.fromkeys(("smi", "nvidia-smi", "nvitop", "gpus", "monitor"), "top"),
    **dict.fromkeys(("clean", "zombies", "cleanup"), "clean-zombies"),
    **dict.fromkeys(("delete", "remove"), "rm"),
    **dict.fromkeys(("download", "pull", "cp"), "fetch"),
    **dict.fromkeys(("follow", "reattach"), "attach"),
    "sbatch": "submit",
    **dict.fromkeys(("ssh", "exec", "shell", "clush", "pdsh"), "ssh-config"),
    **dict.fromkeys(("tunnel", "port-forward", "tensorboard"), "forward"),
    **dict.fromkeys(("py-spy", "dump", "trace"), "stacks"),
    "tail": "logs",
    "help": "--help",
    "version": "--version",
}
"""What other tools call these commands."""

_OTHER_OPTIONS: dict[tuple[str, ...], str] = {
    ("", "-p"): "write a port with its host: user@host:port",  # as ssh has it
    ("", "-V"): "gpulaunch --version",
    ("clean-zombies", "-f", "--force"): "end without asking: --yes",
    ("clean-zombies", "--all"): "on all hosts: gpulaunch clean-zombies all",
    ("preflight", "--all"): "all hosts: gpulaunch preflight all",
    ("preflight", "--fix"): "gpulaunch run corrects precision, port and GPUs; findings name what to type",
    ("prune", "--all"): "all that ended: gpulaunch prune all --older-than 0",
    ("stop", "-f", "--force", "--kill", "-9"): "without time for a checkpoint: --now",
    ("init", "--force"): "move hosts.yaml or the run config away first: init changes no file that exists",
    ("logs", "--tail"): "the last lines: -n N",
    **{(of, "-n"): "to see it and change nothing: --dry-run" for of in ("submit", "clean-zombies", "prune")},
    ("submit", "--logs"): "what is not sent with --login: --set 'sync.exclude=[DIRECTORY]'",
    ("submit", "--wait"): "leave it out: a job waits for its nodes in the queue of Slurm",
    ("submit", "-d", "--detach"): "leave it out: a job needs no client",
    ("logs", "--grep"): "gpulaunch logs RUN | grep WORDS",
    ("attach", "--rank", "-r"): "one rank alone: gpulaunch logs RUN -f -r N",
    ("report", "-o", "--output"): "--html FILE writes a page",
    ("run", "--no-sync"): "--set sync=false",
    ("stop", "--all"): "name the run; gpulaunch ps lists those that live",
    ("rm", "-n", "--dry-run"): "gpulaunch ps shows the run; of all that ended: gpulaunch prune all --dry-run",
    ("rm", "--all"): "gpulaunch prune deletes those of all runs that ended long ago",
    ("submit", "--hosts"): "Slurm chooses the nodes; for sbatch: --set slurm.sbatch.nodelist=HOSTS",
    ("ps", "--watch", "-w"): "gpulaunch top shows runs live",
}
OTHER_OPTIONS = {(of, name): hint for (of, *names), hint in _OTHER_OPTIONS.items() for name in names}
"""What other tools have options for, by our command, "" for each."""
_HOSTS_OF_FILE = f"hosts.yaml lists hosts; {NAMES_OF_FILE.format('FILE')}"
HOST_OPTIONS = {
    **dict.fromkeys(("--without", "--exclude", "--exclude-hosts"), "all hosts but titan: 'all!titan'"),
    **dict.fromkeys(("--hostfile", "--hosts-file", "--machinefile"), _HOSTS_OF_FILE),
}
"""What names hosts in other tools; a script may have such options, too."""


class WrongUsage(click.UsageError):
    """What is wrong with a command line, and what to type instead of the help of the command."""

    def __init__(self, message: str, fix: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.fix = fix

    def format_message(self) -> str:
        """Return both, for a caller that is not ours."""
        return f"{self.message}; {self.fix}"


def explain_unknown_command(
    name: str, commands: Iterable[str], ctx: click.Context, words: Sequence[str] = ()
) -> WrongUsage:
    """Return the error for a command that gpulaunch has not; it names the one that was meant."""
    message = f'gpulaunch has no command "{one_line(name, _SHOWN)}"'
    if name in _LOGINS and words and (line := _login_line(words)):
        return WrongUsage(message, line, ctx)
    if name == "help" and words and words[0] in commands:
        return WrongUsage(message, f"gpulaunch {words[0]} --help", ctx)
    if name.endswith(".py"):
        script = one_line(shlex.quote(name), _SHOWN)
        return WrongUsage(message, f"gpulaunch run {script}; options of the script go last, after --", ctx)
    if name in LAUNCHERS:
        return WrongUsage(message, f"gpulaunch run -- {one_line(shlex.join((name, *words)), 300)}", ctx)
    if "completion" in name:
        return WrongUsage(message, _completion_line(words), ctx)
    from difflib import SequenceMatcher  # noqa: PLC0415 - only for a mistake

    near = {each: SequenceMatcher(None, each, name).ratio() for each in commands}
    close = [each for each, ratio in near.items() if ratio == max(0.6, *near.values())]
    meant = OTHER_NAMES.get(name.lower()) or " or ".join(sorted(close))
    fix = f"did you mean {meant}?" if meant else f"{ctx.command_path} --help"
    return WrongUsage(message, fix, ctx)


def _completion_line(words: Sequence[str]) -> str:
    """Return what turns completion on, in the named shell or the user's; docs/completion.md says where."""
    shell = words[0] if words else os.environ.get("SHELL", "").rpartition("/")[2]
    if shell == "fish":
        return "_GPULAUNCH_COMPLETE=fish_source gpulaunch | source"
    return f'eval "$(_GPULAUNCH_COMPLETE={shell if shell == "zsh" else "bash"}_source gpulaunch)"'


_CLUSH = 'gpulaunch ssh-config > ~/.ssh/gpulaunch.conf && clush -b -o "-F $HOME/.ssh/gpulaunch.conf"'


def _login_line(words: Sequence[str]) -> str:
    """Return the ssh command that a host of hosts.yaml takes, "" for words that name none.

    On several hosts clush runs a command, which ClusterShell has brought along with gpulaunch.
    """
    host, *command = words
    command = command[1:] if command[:1] == ["--"] else command
    from launcher.config.inventory_reader import load_inventory  # noqa: PLC0415 - as above
    from launcher.config.node_sets import format_host_range  # noqa: PLC0415 - only for a mistake
    from launcher.transports.ssh.endpoint import build_endpoint  # noqa: PLC0415 - as above
    from launcher.transports.ssh.ssh_command import format_ssh_command  # noqa: PLC0415 - as above

    try:
        inventory = load_inventory(None)
        names = tuple(entry.name for entry in inventory.resolve((host,)))
        if len(names) > 1:
            fleet = shlex.quote(format_host_range(names))
            line = shlex.join(command) or "COMMAND"
            line = line if line == " ".join(command or [line]) else shlex.quote(line)  # read by two shells
            return f"{_CLUSH} -w {fleet} {line}"
        endpoint = build_endpoint(inventory.lookup(host), inventory)
    except GpulaunchError:
        return ""
    return format_ssh_command(endpoint.ssh_words, command) if endpoint.transport == "ssh" else ""


def refuse_empty_words(command: click.Command, words: list[str], ctx: click.Context) -> None:
    """Raise WrongUsage for an option or argument that is "", as `stop "$RUN"` has where RUN is not set.

    Taken as one that was left out, it would start or stop another run than the user has in mind.
    """
    options = [param for param in command.params if isinstance(param, click.Option)]
    names = {name for option in options if not (option.is_flag or option.count) for name in option.opts}
    ours = words[: words.index("--")] if "--" in words else words
    for before, word in zip(("", *ours), ours, strict=False):
        name = word.removesuffix("=") or before
        if name in names and (not word or word[-1] == "="):
            raise WrongUsage(
                f'{name}: expected a value, got ""', f"leave {name} out, or give it a value", ctx
            )
        if not word:
            raise WrongUsage(
                'expected a word, got ""', "leave it out, or give the variable in it a value", ctx
            )


def describe_usage_error(error: click.ClickException, command: str) -> tuple[str, str]:
    """Return what is wrong with a command line, and what to type; `command`: where the error knows none."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else command
    help_line = f"{path} --help"
    if isinstance(error, WrongUsage):
        return error.message, error.fix
    if isinstance(error, click.NoSuchOption):
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        option = error.option_name
        fix = OTHER_OPTIONS.get((path.rpartition(" ")[2], option)) or OTHER_OPTIONS.get(("", option))
        fix = fix or HOST_OPTIONS.get(option)
        if option in _OF_COMMANDS and path == "gpulaunch":
            fix = f"options go after the command: gpulaunch COMMAND {option}"
        close = get_close_matches(option, error.possibilities or (), n=1, cutoff=0.75)
        fix = fix or (f"did you mean {close[0]}?" if close else "")
        fix = fix or (_of_job(option) if path.endswith(" submit") else "")
        if path.endswith(" lint"):
            fix = fix or f"the script's own arguments are one word: --args '{one_line(option, _SHOWN)} ...'"
        fix = fix or help_line
        return f"{path} has no option {one_line(option, _SHOWN)}", fix
    if isinstance(error, click.MissingParameter):
        from launcher.commands._examples import list_examples  # noqa: PLC0415 - only for a mistake

        example = next(iter(list_examples(path.rpartition(" ")[2])), "")
        return f"{path} needs {_parameter(error)}", f"such as: {example}" if example else help_line
    if isinstance(error, click.BadParameter):
        if (path := re.match(_PATH, error.message)) is None:
            return f"{_parameter(error)}: {_value(error)}", help_line
        what = f"{_parameter(error)}: {one_line(path[1], _SHOWN)} {path[2]}"
        return what, _path_fix(error, path[1], path[2])
    if isinstance(error, click.BadOptionUsage) and "requires" in error.message:
        return f"{error.option_name} needs a value", help_line
    extra = re.match(_EXTRA, error.message)
    if extra is not None:
        word = one_line(extra[1], _SHOWN)
        fix = _EXTRA_WORDS.get(path.rpartition(" ")[2], "") if " " not in word else ""
        fix = fix.format(shlex.quote(word)) or help_line
        return f"{path} takes no further argument, got {word}", fix
    return _plain(error.message), help_line


def _of_job(option: str) -> str:
    """Return how a job gets what `gpulaunch run` or sbatch has an option for, "" for a single letter."""
    from launcher.config.schema import CONFIG_KEYS  # noqa: PLC0415 - only for a mistake
    from launcher.config.slurm_options import SLURM_KEYS, is_usual_option  # noqa: PLC0415 - as above

    name = option.lstrip("-")
    key = name.replace("-", "_")
    if option[:2] != "--":
        return ""
    if any(key == field.name for field in SLURM_KEYS):
        return f"--set slurm.{key}=VALUE, or {key}: in slurm: of the run config"
    if key == "restarts":
        key = "restart.max"
    if found := next((field for field in CONFIG_KEYS if field.name == key.partition(".")[0]), None):
        is_map = found.example.startswith("{") and found.name == key
        return f"--set {key}{'.KEY' * is_map}=VALUE"
    return f"for sbatch: --set slurm.sbatch.{name}=VALUE" if is_usual_option(name) else ""


def _path_fix(error: click.BadParameter, path: str, kind: str) -> str:
    """Return what to type in place of a path that cannot be used."""
    if "directory" in kind:
        return "name a file"
    if "is a file" in kind:
        return "name a directory"
    if "does not exist" not in kind:
        return "name a file that you may read and write"
    listed = error.param is not None and error.param.name == "inventory"
    return f"gpulaunch init -i {shlex.quote(path)} --hosts HOSTS" if listed else "name a file that exists"


def _parameter(error: click.BadParameter) -> str:
    """Return a parameter by its longest spelling."""
    if isinstance(error.param, click.Option):
        return max(error.param.opts, key=len)
    if error.param is not None and error.ctx is not None:
        return error.param.make_metavar(error.ctx).strip("[]").removesuffix("...")
    return str(error.param_hint or "the command line")


def _value(error: click.BadParameter) -> str:
    found, expected = re.match(_VALUE, error.message), _expected(error.param)
    if found is None or not expected:
        return _plain(error.message)
    return f'expected {expected}, got "{one_line(found[1], _SHOWN)}"'


def _expected(param: click.Parameter | None) -> str:
    kind = param.type if param is not None else None
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange):
        bounds = f"of at least {kind.min}" if kind.max is None else f"from {kind.min} to {kind.max}"
        return f"a whole number {bounds}"
    return ""


def _plain(message: str) -> str:
    """Return click's sentence as the middle of one of ours."""
    text = message.removesuffix(".")
    return text[0].lower() + text[1:] if text[:2].istitle() else text
