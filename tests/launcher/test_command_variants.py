"""One command written in many ways is one launch; with one option less, or another value, it is another.

The ways are those of shells, pages, manifests and files of tasks; each changes nothing of what starts.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import ParsedCommand
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

_KNOWN = {"HOME": "/home/ana", "PWD": "/home/ana/w", "USER": "ana"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A command in the parts that a text may write apart."""

    env: Mapping[str, str]
    launcher: tuple[str, ...]
    options: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Every word behind the variables."""
        return (*self.launcher, *self.options, *self.rest)

    @property
    def assigned(self) -> str:
        """The variables in front of the command."""
        return "".join(f"{name}={shlex.quote(value)} " for name, value in self.env.items())

    @property
    def bare(self) -> str:
        """The command without its variables, as one line."""
        return shlex.join(self.words)

    @property
    def line(self) -> str:
        """The command as one line."""
        return self.assigned + self.bare


def _launch(line: str, env: str = "") -> Launch:
    """Return the launch of `LAUNCHER | OPTIONS | SCRIPT ARGUMENTS`."""
    parts = [tuple(shlex.split(part)) for part in line.split(" | ")]
    pairs = (pair.partition("=") for pair in shlex.split(env))
    return Launch({name: value for name, _, value in pairs}, *parts)


_LAUNCHES = (
    _launch("torchrun | --nproc_per_node 4 --nnodes 2 --master_port 29501 | a.py --name 'a b' --fp16"),
    _launch("torchrun | --standalone --nproc-per-node gpu --tee 3 | -m pkg.a '[1,2]' --x='a;b'", "A='x y'"),
    _launch("python3 -m torch.distributed.launch | --nproc_per_node 2 | a.py --seed -1", "MASTER_PORT=1234"),
    _launch("accelerate launch | --num_processes 4 --mixed_precision bf16 | a.py --glob '*.txt' --x '$5'"),
    _launch("accelerate launch | --config_file c.yaml --gpu_ids 0,1 | a.py --s 'it'\"'\"'s'", "NCCL_P2P=1"),
    _launch("deepspeed | --include localhost:0,2 --no_local_rank | a.py --u 'http://a/b?c=1&d=2' --e ''"),
    _launch("mpirun | -np 4 -x NCCL_DEBUG=INFO | python a.py --q 'say \"hi\"' --p 100%"),
    _launch("srun | --nodes 2 --ntasks-per-node 4 | python a.py --tag '#1'"),
    _launch("fabric run | --devices 2 --precision bf16-mixed | a.py --lr 1", "OMP_NUM_THREADS=4"),
)  # fmt: skip


def _double(word: str) -> str:
    escaped = "".join(f"\\{char}" if char in '\\"$`' else char for char in word)
    return f'"{escaped}"'


def _each(quote: Callable[[str], str], mark: str = " ") -> Callable[[Launch], str]:
    return lambda one: one.assigned + mark.join((*one.launcher, *map(quote, one.words[len(one.launcher) :])))


def _with_variables(one: Launch) -> str:
    rest = (*one.options, *one.rest)
    lines = [f"V{at}={_double(word)}" for at, word in enumerate(rest)]
    named = " ".join(f'"${{V{at}}}"' for at in range(len(rest)))
    return "\n".join((*lines, f"{one.assigned}{' '.join(one.launcher)} {named}"))


def _with_arrays(one: Launch) -> str:
    options, rest = (
        "\n".join(f"  {shlex.quote(word)}  # it" for word in words) for words in (one.options, one.rest)
    )
    start = f'{one.assigned}{" ".join(one.launcher)} "${{OPTIONS[@]}}" "${{REST[@]}}"'
    return f"OPTIONS=(\n{options}\n)\nREST=()\nREST+=(\n{rest}\n)\n{start}"


def _with_text(one: Launch) -> str:
    options = "".join(f'OPTIONS+=" {word}"\n' for word in one.options)
    return f'OPTIONS=""\n{options}{one.assigned}{" ".join(one.launcher)} $OPTIONS {shlex.join(one.rest)}'


def _function(one: Launch) -> str:
    start = f'{one.assigned}{shlex.join((*one.launcher, *one.options))} "$@"'
    return f"run() {{\n  {start}\n}}\nrun {shlex.join(one.rest)}"


def _container(one: Launch) -> str:
    env = "".join(
        f"    - name: {name}\n      value: {json.dumps(value)}\n" for name, value in one.env.items()
    )
    words = "".join(f"    - {json.dumps(word)}\n" for word in one.words)
    return f"kind: Job\nspec:\n  containers:\n  - name: x\n    env:\n{env}    command:\n{words}"


def _service(one: Launch) -> str:
    env = "".join(f"      {name}: {json.dumps(value)}\n" for name, value in one.env.items())
    words = json.dumps([word.replace("$", "$$") for word in one.words])
    return f"services:\n  a:\n    environment:\n{env}    command: {words}\n"


_WAYS: Mapping[str, Callable[[Launch], str]] = {
    "double quotes": _each(_double),
    "single quotes": _each(lambda word: "'" + word.replace("'", "'\\''") + "'"),
    "backslashes": _each(lambda word: "".join(c if c.isalnum() else f"\\{c}" for c in word) or "''"),
    "quotes within": _each(lambda word: shlex.quote(word[:1]) + _double(word[1:])),
    "lines": _each(shlex.quote, " \\\n    "),
    "tabs": _each(shlex.quote, "\t "),
    "lines of Windows": lambda one: "#!/bin/bash\r\n" + _each(shlex.quote, " \\\r\n")(one) + "\r\n",
    "variables": _with_variables,
    "arrays": _with_arrays,
    "a text of options": _with_text,
    "a function": _function,
    "export": lambda one: "".join(f"export {pair}\n" for pair in _pairs(one)) + one.bare,
    "set -a": lambda one: "\n".join(("set -a", *_pairs(one), "set +a", one.bare)),
    "env": lambda one: f"env {one.line}" if one.env else one.line,
    "comments": lambda one: f"#!/bin/bash\n# it\nset -euo pipefail\necho start\n{one.line}  # it\n",
    "what follows": lambda one: f"{one.line} 2>&1 | tee log && echo done || exit 1\nwait\n",
    "bash -c": lambda one: f"bash -lc {shlex.quote(one.line)}",
    "eval": lambda one: f'COMMAND={shlex.quote(one.line)}\necho $COMMAND\neval "$COMMAND"',
    "a text in place": lambda one: f"bash <<'EOF'\n{one.line}\nEOF",
    "a condition": lambda one: f"N=2\nif [ $N -gt 1 ]; then\n  {one.line}\nelse\n  echo no\nfi",
    "a case": lambda one: f"M=x\ncase $M in\n  x|y) {one.line} ;;\n  *) exit 1 ;;\nesac",
    "a loop": lambda one: f"i=0\nwhile [ $i -lt 1 ]; do\n{one.line}\ni=$((i+1))\ndone",
    "a group": lambda one: f"( {one.line} )",
    "a fence": lambda one: f"Train it:\n\n```bash\n{one.line}\n```\n\nDone.\n",
    "a prompt": lambda one: f"ana@gpu1:~/x$ {one.line}",
    "a notebook": lambda one: f"!{one.line}",
    "a step": lambda one: f"jobs:\n  a:\n    steps:\n    - name: a\n      run: |\n        {one.line}\n",
    "a task of SkyPilot": lambda one: f"resources:\n  accelerators: L4:8\nrun: |\n  {one.line}\n",
    "a container": _container,
    "a service": _service,
    "a Makefile": lambda one: ".PHONY: a\na:\n\t" + one.line.replace("$", "$$") + "\n",
    "a justfile": lambda one: f"a:\n    {one.line}\n",
    "package.json": lambda one: json.dumps({"scripts": {"a": one.line}}),
}


def _pairs(one: Launch) -> tuple[str, ...]:
    return tuple(f"{name}={shlex.quote(value)}" for name, value in one.env.items())


def _unquoted(one: Launch) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in one.env.items())


def _read(text: str) -> object:
    """Return what a text launches, without the places and the words around it."""
    try:
        parsed = parse_line(text, _KNOWN)
    except CommandRefused as refused:
        return refused.message
    uses = {(use.name, use.values) for use in (*parsed.owned, *parsed.kept)}
    return replace(parsed, words=(), owned=(), kept=(), dropped=(), remarks=()), uses


@pytest.mark.parametrize("way", _WAYS)
def test_a_command_is_one_launch_however_it_is_written(way: str) -> None:
    readings = {one.line: (_read(_WAYS[way](one)), _read(one.line)) for one in _LAUNCHES}
    assert [line for line, (read, plain) in readings.items() if read != plain] == []
    assert all(
        isinstance(plain[0], ParsedCommand) for _, plain in readings.values() if isinstance(plain, tuple)
    )


def _changed(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for at, word in enumerate(words):
        yield (*words[:at], f"{word}1", *words[at + 1 :])
        yield (*words[:at], *words[at + 1 :])


def _sayings(text: str) -> object:
    try:
        parsed = parse_line(text, _KNOWN)
    except CommandRefused as refused:
        return refused.message
    return replace(parsed, words=())


@pytest.mark.parametrize("way", ["arrays", "a function", "a container", "a service"])
def test_a_changed_word_changes_the_launch_or_what_is_said(way: str) -> None:
    lost = []
    for one in _LAUNCHES:
        words = (*one.options, *one.rest)
        plain = _sayings(_WAYS[way](replace(one, options=(), rest=words)))
        texts = (_WAYS[way](replace(one, options=(), rest=changed)) for changed in _changed(words))
        lost += [text for text in texts if _sayings(text) == plain]
    assert lost == []
