"""How a command reaches the hosts that its command line names."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

import click
from click.core import ParameterSource

from launcher.commands._host_options import HostOptions
from launcher.config.host_access_args import read_access_words
from launcher.config.inventory import FILE_NAME, HostEntry, Inventory
from launcher.config.inventory_reader import find_misnamed_inventory, load_inventory
from launcher.errors import BadInput
from launcher.follow.job_end import JobEndNotice
from launcher.local.home import expand_home, shorten_path
from launcher.remote.shards.terminal_questions import ShardAccess, SharedAnswers
from launcher.terminal.output import ask_secret, ask_visibly, can_ask, echo
from launcher.transports.base import Confirm, Connection, OpenOptions, Prompt
from launcher.transports.ssh.endpoint import build_opener
from preflight import regex as re
from preflight.checks.message_text import quote_path
from preflight.frozen import dataclass

_OTHERS = 0o077
_HEAD = re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")
"""Of the private keys that OpenSSH reads. A public one names a key of the agent, and may be open to all."""


def describe_key_problem(file: str) -> str:
    """Return what is wrong with a named key, absent or readable by others, and the fix; "" where nothing is.

    Another key may open the hosts of an absent one. gpulaunch takes a key that others may read, and a command
    that it prints for ssh would not. The rule is OpenSSH's (`sshkey_perm_ok`): it refuses a key of the user's
    own with any right of group or others.
    """
    with suppress(OSError, ValueError, BadInput):  # where it is offered, it is reported
        path, name = expand_home(file), quote_path(shorten_path(file))
        if not path.exists() and not Path(f"{path}.pub").exists():  # that names a key of the agent
            return (
                f"identity_file {name} does not exist: only other keys are offered; correct it in hosts.yaml"
            )
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        is_open = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and mode & _OTHERS
        if is_open and _is_private(path):
            return f"{name} has mode {mode:o}: others have rights on it, so ssh refuses it; chmod 600 {name}"
    return ""


def _is_private(path: Path) -> bool:
    with path.open("rb") as file:
        return _HEAD.match(file.read(64)) is not None


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The inventory, and how to open its hosts."""

    inventory: Inventory
    open: Callable[[HostEntry], Connection]
    width: int
    close: Callable[[], None] = _nothing  # what all connections share
    nodes: tuple[HostEntry, ...] = ()  # of the Slurm job that is meant; they take the place of hosts
    job: str = ""  # that job's own id
    job_notice: JobEndNotice | None = None  # of that job, where its nodes are reached by a step
    shards: ShardAccess | None = None  # for many hosts; None: only this process reaches them
    named_keys: set[str] = field(default_factory=set)  # that ssh would refuse; each is named once

    def resolve(self, words: Iterable[str]) -> tuple[HostEntry, ...]:
        """Return the hosts that words name; see `Inventory.resolve` and `with_open_keys_named`."""
        return self.with_open_keys_named(self.inventory.resolve(words))

    def with_open_keys_named(self, entries: tuple[HostEntry, ...]) -> tuple[HostEntry, ...]:
        """Return `entries`; print which keys of these hosts ssh would refuse, before a screen is taken."""
        for file in dict.fromkeys(_key_files(self.inventory, entries)):
            problem = "" if file in self.named_keys else describe_key_problem(file)
            if problem:
                self.named_keys.add(file)
                echo(problem, err=True)
        return entries


def open_host_access(
    host_options: HostOptions, *, prompt: Prompt = ask_secret, confirm: Confirm = ask_visibly
) -> HostAccess:
    """Return how to reach hosts; gpulaunch asks for secrets only at a terminal, by `prompt` and `confirm`."""
    named = host_options.inventory
    is_new = named is not None and not named.exists()  # `init` writes it; other commands refuse such a name
    loaded = Inventory(named) if is_new else load_inventory(named)
    if named is None and loaded.path is not None and loaded.path.parts[0] == "..":
        # Found in a parent directory: the user neither named it nor works beside it.
        echo(f"hosts of {loaded.path}", err=True)
    if named is None and (other := find_misnamed_inventory()) is not None:
        echo(f"{other} is not read: gpulaunch reads {FILE_NAME}; mv {other} {FILE_NAME}", err=True)
    if host_options.identity_file is not None:
        loaded = replace(loaded, identity_file=str(host_options.identity_file.absolute()))
    given = {"--inventory": host_options.inventory, "--identity-file": host_options.identity_file}
    words = [f"{name}={path}" for name, path in given.items() if path is not None]
    loaded = replace(loaded, access_words=read_access_words(words))
    person = _person(prompt, confirm)
    options = person.options(accept_new_host_keys=host_options.accept_new_host_keys)
    width = host_options.parallel if _is_given("parallel") else None
    shards = ShardAccess(loaded, person, host_options.accept_new_host_keys, width)
    return HostAccess(loaded, build_opener(loaded, options), host_options.parallel, shards=shards)


def _key_files(inventory: Inventory, entries: tuple[HostEntry, ...]) -> Iterator[str]:
    """Yield the keys that the user names: for this command, else in hosts.yaml for hosts and jump hosts."""
    if inventory.identity_file:
        yield inventory.identity_file
        return
    for entry in entries:
        hops = (inventory.hosts.get(word.removeprefix("ssh://"), inventory.defaults) for word in entry.jump)
        yield from (each.identity_file for each in (entry, *hops) if each.identity_file)


def ask_options(host_options: HostOptions) -> OpenOptions:
    """Return what the user allows this time, for a question that is about no host."""
    return _person(ask_secret, ask_visibly).options(accept_new_host_keys=host_options.accept_new_host_keys)


def _person(prompt: Prompt, confirm: Confirm) -> SharedAnswers:
    return SharedAnswers(prompt, confirm) if can_ask() else SharedAnswers(None, None)


def _is_given(option: str) -> bool:
    """Whether the user has given an option, not its default."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(option) not in (None, ParameterSource.DEFAULT)
