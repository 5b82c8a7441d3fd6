"""Launches that a text starts by hand, by ssh host by host or rank by rank: what takes their place. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from launcher.engines.command_line.shell.terminals import skip_options
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.engines.command_line.side_commands import has_launcher, is_python
from launcher.errors import CommandRefused
from preflight import regex as re

LONGEST_LAUNCH = 400
_HOSTS = re.compile(r"(?:-[wHm]|--hosts?)(?:=?(.+))?", re.DOTALL)
_HOST_FILE = re.compile(r"(?:-[hf]|--hostfile|--hosts-file)(?:=?(.+))?", re.DOTALL)
_WITH_VALUE = re.compile(r"-[wxgltufRHhpoeOXmFN]|--(?:hosts?|hostfile|user|timeout|fanout|par|outdir|errdir)")
_NAMES = re.compile(r"[\w.@:,/\[\] -]+")
_SSH_VALUES = re.compile(r"-[a-zA-Z]*[BbcDEeFIiJLlmOopPQRSWw]")
_NODE_RANK = re.compile(r"\s--(?:node|machine)[_-]rank(?:[= ](?:\"[^\"]*\"|\S+))?(?:\s|$)")
_CONDITIONAL = re.compile(r" \([a-z ]+\)")  # behind a variable that the text sets where a condition holds
_SPAWNS = frozenset(("--multiprocessing-distributed", "--multiprocessing_distributed"))
_WORLD, _URL = ("--world-size", "--world_size", "--rank"), ("--dist-url", "--dist_url")
_RANKS = ("--rank", "--local_rank", "--local-rank", "RANK", "LOCAL_RANK")
_CARDS = ("--gpu", "--gpu_id", "--gpu-id", "--gpus", "--device", "--cuda", "CUDA_VISIBLE_DEVICES")


def is_host(texts: Sequence[str], at: int, text: str) -> bool:
    """Whether a word of ssh is its host, and no option or value of one."""
    is_value = at > 0 and _SSH_VALUES.fullmatch(texts[at - 1]) is not None
    return not text.startswith("-") and not is_value and re.fullmatch(r"[\w.@:-]+", text) is not None


def replace_ssh(commands: Sequence[Sequence[Word]]) -> str:
    """Return what takes the place of commands that start one launch by ssh, or some of them; else "".

    One without ssh is that of the local host.
    """
    hosts: dict[str, None] = {}
    launches: list[str] = []
    for words in commands:
        start = 1 if words[0].text == "sudo" else 0
        texts = [word.text for word in words[start + 1 :]]
        at = next((at for at, text in enumerate(texts) if is_host(texts, at, text)), None)
        if words[start].text != "ssh":
            hosts = {"localhost": None, **hosts}
            launches.append(shlex.join(word.text for word in words))
            continue
        if at is None or not words[start + at + 1].is_known:
            return ""
        hosts[texts[at]] = None
        launches.append(" ".join(texts[at + 1 :]))
    names = [re.escape(host.rpartition("@")[2]) for host in sorted(hosts, key=len, reverse=True)]
    apart = rf"(?<![\w.-])(?:{'|'.join(names)})(?![\w.-])|\d+"
    alike = {re.sub(apart, "", _without_surroundings(launch)) for launch in launches}
    if len(alike) > 1 or len(hosts) < len(commands) or not hosts.keys() - {"localhost"}:
        return ""
    launch = _NODE_RANK.sub(" ", launches[0]).strip()
    launch = shlex.quote(launch) if len(launch) <= LONGEST_LAUNCH else "LAUNCH"
    return f"launch what one of them starts, without ssh: gpulaunch run --hosts {','.join(hosts)} -- {launch}"


def explain_loop_over_nodes(words: Sequence[Word], kind: str) -> CommandRefused | None:
    """Return the error for a launch that a loop starts on each node, of which the text does not say all.

    None for any other command of a loop.
    """
    texts = [word.text for word in words if word.text != "sudo"]
    at = 0
    if texts[0] == "ssh":
        at = skip_options(texts, 1, _SSH_VALUES.fullmatch) + 1
    elif texts[0] == "srun":
        at = next((at for at, word in enumerate(texts) if at and _starts(word)), 0)
    launch = " ".join(texts[at:])
    is_of_node = texts[0] == "ssh" or any(_NODE_RANK.match(f" {text} ") for text in texts)
    if kind not in ("for", "while", "until") or not (is_of_node and any(map(_starts, launch.split()))):
        return None
    launch = _NODE_RANK.sub(" ", _CONDITIONAL.sub("", launch)).strip()
    shown = shlex.quote(launch) if len(launch) <= LONGEST_LAUNCH else "LAUNCH"
    return CommandRefused(
        f"the text starts the launch once for each node, and does not say them all ({kind})",
        f"launch it once, without the loop: gpulaunch run --hosts A,B -- {shown};"
        ' of hosts in a file: --hosts "$(paste -sd, FILE)"',
    )


def _starts(word: str) -> bool:
    return has_launcher((Word(word),)) or is_python(Word(word))


def _without_surroundings(launch: str) -> str:
    """Return a launch without what enters its directory or environment and what takes its output."""
    without = re.sub(r"^(?:(?:cd|source|\.|export)\s[^;&|]*(?:;|&&)\s*|nohup\s+)*", "", launch.strip())
    return re.sub(r"\s*(?:\d?>>?\s*\S+|2>&1|&)\s*", " ", without).strip()


def replace_fan_out(words: Sequence[Word]) -> str:
    """Return what takes the place of `pdsh -w HOSTS LAUNCH` and its like; "" where its hosts are unknown."""
    texts = [word.text for word in words]
    at = skip_options(texts, 0, _WITH_VALUE.fullmatch)
    hosts, launch = "", " ".join(texts[at:])
    for option, following in pairwise(texts[: at + 1]):
        if (named := _HOSTS.fullmatch(option)) and _NAMES.fullmatch(value := named[1] or following):
            hosts = shlex.quote(",".join(value.split())) if "[" in value else ",".join(value.split())
        elif (held := _HOST_FILE.fullmatch(option)) and _NAMES.fullmatch(value := held[1] or following):
            hosts = f'"$(paste -sd, {value})"'
    shown = shlex.quote(launch) if len(launch) <= LONGEST_LAUNCH else "LAUNCH"
    is_known = bool(hosts and launch) and has_launcher([Word(part) for part in launch.split()])
    return f"launch what it starts: gpulaunch run --hosts {hosts} -- {shown}" if is_known else ""


def explain_ranks(commands: Sequence[Sequence[Word]]) -> CommandRefused | None:
    """Return the error for a training whose ranks a text starts one by one; None for other commands."""
    found = [_without_rank(words) for words in commands]
    ranks, (rest, given) = [rank for _, _, rank in found], found[0][:2]
    is_one = {(words, tuple(names)) for words, names, _ in found} == {(rest, tuple(given))}
    if not is_one or len(ranks) < 2 or sorted(ranks) != sorted(map(str, range(len(ranks)))):
        return None
    at = next((at for at, text in enumerate(rest) if is_python(Word(text))), None)
    if at is None or not rest[at + 1 :] or has_launcher([Word(text) for text in rest]):
        return None
    is_local = "--local_rank" in given or "--local-rank" in given
    launcher = "python -m torch.distributed.launch" if is_local and "--rank" not in given else "torchrun"
    launch = shlex.join(_of_env(rest[at + 1 :]))
    shown = f"{launcher} {launch if len(launch) <= LONGEST_LAUNCH else 'SCRIPT'}"
    count, spawns = len(ranks), not _SPAWNS.isdisjoint(rest)
    what, where = ("nodes", f"--hosts {_hosts(count)}") if spawns else ("ranks", f"--hosts A --gpus {count}")
    return CommandRefused(
        f"the text starts the {count} {what} of one training itself, each with its {' and '.join(given)}",
        "start it once, and let the script take its rank from RANK and LOCAL_RANK:"
        f" gpulaunch run {where} -- {shown}",
    )


def _hosts(count: int) -> str:
    return ",".join("ABCDEFGH"[:count])


def _of_env(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a script that starts ranks of its own, as of one that is such a rank."""
    starts_own = _SPAWNS.intersection(args)
    is_value = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        if starts_own and (is_value or name in (*_SPAWNS, *_WORLD, *_URL)):
            yield from ("--dist-url", "env://") if not is_value and name in _URL else ()
            is_value = not is_value and not equals and name not in _SPAWNS
        else:
            yield arg


def _without_rank(words: Sequence[Word]) -> tuple[tuple[str, ...], list[str], str]:
    """Return the words of a command without its rank and its GPU, how these are said, and the rank."""
    front = len(list(takewhile(is_assignment, words)))
    texts, kept, names, rank = [word.text for word in words], list[str](), list[str](), ""
    at = 0
    while at < len(texts):
        name, equals, value = texts[at].partition("=")
        is_said = name in (*_RANKS, *_CARDS) and (at < front) is not name.startswith("-")
        if not is_said:
            kept.append(texts[at])
        else:
            at += not equals
            value = value if equals else "".join(texts[at : at + 1])
            names.append(name)
            rank = (
                value if name in _RANKS and "LOCAL" not in name.upper() else rank or value * (name in _RANKS)
            )
        at += 1
    return tuple(kept), names, rank
