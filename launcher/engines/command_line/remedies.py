"""What takes the place of a program in front of a launch, in the words that the line has. Pure."""

import shlex
from collections.abc import Sequence
from itertools import pairwise, takewhile

from launcher.engines.command_line import own_ranks
from launcher.engines.command_line.launch_patterns import LAUNCH_INSIDE
from launcher.engines.command_line.manual_starts import is_host, replace_fan_out
from launcher.engines.command_line.parsed_command import LauncherKind
from launcher.engines.command_line.refusals import explain_empty
from launcher.engines.command_line.shell.terminals import skip_options
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.engines.command_line.side_commands import find_launcher, has_launcher, is_launch, is_python
from launcher.engines.command_line.tables import wrappers as tables
from launcher.engines.command_line.tables.shells import starts_posix_shell
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.checks.message_text import shorten

_PROGRAM = re.compile(r"(?:[./][\w./-]*/)?[\w.-]+")
"""No image, which has a repository in front and a tag behind: `pytorch/pytorch:latest`."""

_EXECUTES = ("docker", "podman", "kubectl")  # programs that `via:` knows by name

_LAUNCH = "gpulaunch run --hosts A,B -- "
_ENV_OPTIONS = ("-e", "--env", "-E", "--genv", "--environment-variable")
_LISTED = re.compile(r",(?=[A-Za-z_]\w{0,100}=)")  # between the variables of one option: `--env A=1,B=2`

_SHAPE = re.compile(r"(?:--?j=?)?(\d+)x(\d+)")  # nodes and ranks of each: `-j 2x8`

_NEVER = re.compile(r"(?!)")
_OF_HOST = ("HOME", "PATH", "USER")

_VARIABLE = re.compile(r"([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)
_HANDS_ON = re.compile(
    r"[A-Z][a-z]+,?\b.*|[\w.-]*(?:submit|launch|queue|sub)[\w.-]* .*"
    r"|[^\s.]+ (?:submit|run|launch|jobs?|create|start|train)"
)
_OF_HYDRA = re.compile(r"\+*hydra/launcher=(?:submitit|ray|rq|slurm)")  # hands runs to a cluster

_BARE = re.compile(r"[^/]+(?<!\.sh)(?<!\.bash)")  # a program by its name alone, and no script of a shell

_HANDS_OVER = re.compile(r"(?:[a-z]+ )?(?:submit|up|deploy|apply|daemon|enqueue)(?!\S)")
_SENTENCE = re.compile(r"[A-Z][a-z]+,?(?: [^\s-]\S*){3,40}[.:!]")
_FOR_PERSON = ("-i", "-l", "-il", "-li", "--login")
_EXEC_VALUES = ("-u", "--user", "-w", "--workdir", "-e", "--env", "--env-file", "--detach-keys", "-c", "-n")
_SHOWN = 200
_CONDITIONAL = re.compile(r" \([a-z ]+\)$")  # behind a variable that the text sets where a condition holds

_VERBS = {
    **dict.fromkeys(("docker", "podman", "podman-hpc", "nerdctl", "nvidia-docker"), ("run", "exec")),
    **dict.fromkeys(("apptainer", "singularity"), ("run", "exec")),
}
_FLAG = re.compile(
    r"-[itdPq]+|--(?:rm|init|privileged|read-only|tty|interactive|detach|publish-all|no-healthcheck|quiet|nv|rocm"
    r"|gpu|nccl|mpi|replace|cleanenv|contain|containall|no-home|writable|writable-tmpfs|compat|fakeroot|userns|no-mount)"
)
"""An option of them without a value."""

_NO_INNER_COMMAND = (
    "start the container on each host, name it in hosts.yaml (via:), and launch the command that trains in"
    " it: gpulaunch run --hosts A,B -- torchrun SCRIPT"
)


def explain_refused_program(name: str, words: Sequence[Word]) -> CommandRefused:
    """Return the error for a program of `tables.REFUSED` with these words behind it."""
    why, fix = tables.REFUSED[name]
    return CommandRefused(f"{name}: {why}", format_fix(name, words) or fix)


def format_fix(name: str, words: Sequence[Word]) -> str:
    """Return what takes the place of a program with these words, "" where its table says all."""
    texts = [word.text for word in words]
    if name == "ssh":
        at = next((at for at, text in enumerate(texts) if is_host(texts, at, text)), None)
        return f"leave ssh {texts[at]} out, and write --hosts {texts[at]}" if at is not None else ""
    if name in tables.TO_HOSTS:
        return replace_fan_out(words)
    if name in tables.REPEATERS:
        return "leave it and ssh out, and write --hosts A,B" if "ssh" in texts else ""
    if name == "sudo":
        user = next((after for text, after in pairwise(texts) if text == "-u"), "")
        return f"leave it out, and name {user}@HOST with --hosts" if user else ""
    if name in tables.CONTAINERS:
        return _with_variables(name, _container_fix(name, words), words)
    if name in tables.SCHEDULERS:
        fix = _with_variables(name, _scheduler_fix(words), words)
        of_ray = name == "ray" and fix and own_ranks.ON_RAY not in fix
        return f"{fix}; a script that uses Ray itself: {own_ranks.ON_RAY}" if of_ray else fix
    return _batch_script_fix(words) if name == "sbatch" else ""


def _with_variables(program: str, fix: str, words: Sequence[Word]) -> str:
    """Return a fix with the variables in front of its launch that the options of the program give it."""
    mark = _LISTED if program.startswith(("singularity", "apptainer", "torchx")) else _NEVER
    given: dict[str, str] = {}
    for word, following in pairwise((*words, Word(""))):
        if word.text == "--" or is_python(word) or has_launcher((word,)):
            break
        name, equals, value = word.text.partition("=")
        source = Word(value, word.unresolved) if equals else following
        value = source.text
        for part in mark.split(value) if name in _ENV_OPTIONS else ():
            pair = _VARIABLE.fullmatch(part)
            if pair is not None and part not in _OF_HOST:
                shown = f"${part}" if pair[2] is None else _typed(Word(pair[2], source.unresolved))
                given[pair[1]] = f"{pair[1]}={shown}"
    return fix.replace(_LAUNCH, f"{_LAUNCH}{shorten(' '.join(given.values()), _SHOWN)} ") if given else fix


def refuse_submitter(
    launcher: LauncherKind, name: str, words: Sequence[Word], prefix: Sequence[Word] = ()
) -> None:
    """Raise CommandRefused for a program whose words say to hand a launch on: `x submit torchrun`, Hydra's.

    `prefix` is what counts its processes: `mpirun -np 8`. Without `--` in front of the launch it is one that
    its own words, or a sentence, say to hand on.
    """
    texts = [word.text for word in words]
    if hydra := next(filter(_OF_HYDRA.match, texts), ""):
        raise CommandRefused(
            f"{hydra}: Hydra hands the runs to a cluster of its own, and gpulaunch starts processes itself",
            "leave it and hydra.launcher.* out, and name the hosts with --hosts",
        )
    is_program = launcher == "opaque" and _BARE.fullmatch(name) is not None
    if not is_program and launcher != "python":
        return
    starts = (at for at in range(len(words) - 1) if find_launcher(words[at : at + 2]) == texts[at])
    at = next((at for at in starts if is_launch(words[at:])), len(texts))
    before = texts[:at] if at < len(texts) else []
    first = at - sum(1 for _ in takewhile(is_assignment, reversed(words[:at])))
    is_argument = bool(before) and not before[-1].startswith("-")  # the launch, and no value of an option
    hands_on = "--" in before or _HANDS_ON.fullmatch(" ".join((name, *texts[:1])))
    if before[-1:] == ["--"] or (is_argument and hands_on):
        raise CommandRefused(
            f"{name}: it has a launch among its words, and starts that itself or hands it on",
            f"leave it and its options out: gpulaunch run --hosts A,B -- {_shown((*prefix, *words[first:]))}",
        )
    handed = _HANDS_OVER.match(" ".join(texts[:2])) if is_program else None
    if handed is not None:
        raise CommandRefused(f"{name} {handed[0]}: it {tables.SCHEDULER[0]}", tables.SCHEDULER[1])
    if _SENTENCE.fullmatch(" ".join((name, *texts))):
        raise explain_empty()


def add_launch(error: CommandRefused, words: Sequence[Word]) -> CommandRefused:
    """Return the error for a container of srun with the launch behind it; any other error as it is."""
    command = _inner_command("", words) if error.message.startswith("--container") else ""
    if not command:
        return error
    launch = f"{error.fix} (via:), and launch: gpulaunch run --hosts A,B -- {command}"
    return CommandRefused(error.message, launch)


def _container_fix(name: str, words: Sequence[Word]) -> str:
    """Return the launch that a line of docker or its like holds, and where its container is named."""
    command = _inner_command(name, words)
    if not command or all(starts_posix_shell(part) or part in _FOR_PERSON for part in command.split()):
        return _NO_INNER_COMMAND if name in _VERBS else ""
    running = _running_container(words) if name in _EXECUTES else ""
    start = "" if running else "start the container on each host, "
    via = f"via: {{{name}: {running or 'NAME'}}}" if name in _EXECUTES else "via:"
    return f"{start}name it in hosts.yaml ({via}), and launch: gpulaunch run --hosts A,B -- {command}"


def _inner_command(name: str, words: Sequence[Word]) -> str:
    """Return the command that a container or a scheduler would run, as it is typed; "" where none is seen."""
    texts = [word.text for word in words]
    program = _value_of("--entrypoint", words) if name in _VERBS else None
    if program is not None:
        return _shown((program, *words[_image(name, texts) + 1 :]))
    is_shell = any(map(starts_posix_shell, texts)) or _image(name, texts) == len(texts) - 3
    if is_shell and re.fullmatch(r"-\w*c", "".join(texts[-2:-1])):
        text = texts[-1].strip()
        return "" if "\n" in text else shorten(shlex.quote(text), _SHOWN)
    named = (at for at, text in enumerate(texts) if _PROGRAM.fullmatch(text))
    starts = (at for at in named if is_python(words[at]) or has_launcher(words[at : at + 1]))
    at = next((at for at in starts if is_launch(words[at : at + 3])), len(words))
    return _shown(words[min(at, _behind_image(name, texts)) :])


def _value_of(option: str, words: Sequence[Word]) -> Word | None:
    """Return the value of an option, in its word or behind it."""
    for word, following in pairwise((*words, Word(""))):
        name, equals, value = word.text.partition("=")
        if name == option:
            return Word(value, word.unresolved) if equals else following
    return None


def _image(name: str, texts: Sequence[str]) -> int:
    """Return where the image of `docker run` or `apptainer exec` is."""
    verb = next((at for at, text in enumerate(texts) if text in _VERBS.get(name, ())), len(texts))
    at = verb + 1
    while at < len(texts) and texts[at].startswith("-"):
        is_alone = (
            "=" in texts[at] or _FLAG.fullmatch(texts[at]) or "".join(texts[at + 1 : at + 2])[:1] == "-"
        )
        at += 1 if is_alone else 2
    return at


def _behind_image(name: str, texts: Sequence[str]) -> int:
    at = _image(name, texts)
    return at if starts_posix_shell("".join(texts[at : at + 1])) else at + 1


def _scheduler_fix(words: Sequence[Word]) -> str:
    """Return the launch that a line of a scheduler holds: behind `--`, in quotes, or from its launcher on."""
    texts = [word.text for word in words]
    workers = next(filter(own_ranks.RAY.fullmatch, texts), "")
    if workers:
        return f"{workers} starts workers of Ray itself: {own_ranks.ON_RAY}"
    behind = words[texts.index("--") + 1 :] if "--" in texts else ()
    program = _value_of("--script", words) or _value_of("-m", words)
    if "dist.ddp" in texts and program is not None:  # of torchx
        shape = next(filter(None, map(_SHAPE.fullmatch, texts)), None)
        counts = f"--nnodes {shape[1]} --nproc_per_node {shape[2]}".split() if shape is not None else ()
        module = ("-m",) * ("--script" not in texts)
        behind = (*map(Word, ("torchrun", *counts, *module)), program, *behind)
    is_program = bool(behind) and not behind[0].text.startswith("-")
    named = [text for text in texts if _launches(text)]
    quoted = shorten(shlex.quote(named[0]), _SHOWN) if named else ""
    command = (_inner_command("", behind) or _shown(behind)) if is_program else quoted
    command = command or _inner_command("", words)
    return (
        f"leave it and its options out, and launch: gpulaunch run --hosts A,B -- {command}" if command else ""
    )


def _launches(text: str) -> bool:
    """Whether a word is a command in quotes that starts with a launcher, or enters a directory for one."""
    first, *rest = text.split(maxsplit=1)[:2] or ("",)
    starts = is_python(Word(first)) or has_launcher((Word(first),))
    return bool(rest) and (
        starts or (first in ("cd", "source", ".") and LAUNCH_INSIDE.search(text) is not None)
    )


def _shown(words: Sequence[Word]) -> str:
    return shorten(" ".join(map(_typed, words)), _SHOWN)


def _typed(word: Word) -> str:
    """Return a word as it is typed; a variable without a value stays one."""
    if word.is_known:
        return shlex.quote(word.text)
    if any(_CONDITIONAL.search(part) for part in word.unresolved):
        return "..."
    return f'"{word.text}"' if any(map(str.isspace, word.text)) else word.text


def _running_container(words: Sequence[Word]) -> str:
    """Return the container that `exec` names."""
    texts = [word.text for word in words]
    if texts[:1] != ["exec"]:
        return ""
    at = skip_options(texts, 1, _EXEC_VALUES.__contains__)
    return texts[at] if at < len(texts) and re.fullmatch(r"[\w.-]+", texts[at]) else ""


def _batch_script_fix(words: Sequence[Word]) -> str:
    """Return what takes the place of `sbatch`: its script is the first file among its words."""
    wrapped = _value_of("--wrap", words)
    if wrapped is not None:
        return f"launch what it wraps: {_LAUNCH}{shorten(shlex.quote(wrapped.text.strip()), _SHOWN)}"
    texts = [word.text for word in words]
    script = next((text for text in texts if text.endswith(tables.BATCH_SUFFIXES)), "")
    if not script and texts and not texts[-1].startswith("-"):
        script = texts[-1]
    if not script or "$" in script:
        return tables.REFUSED["sbatch"][1]
    return f"gpulaunch init {shlex.quote(script)} makes a run config of it"
