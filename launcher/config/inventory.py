"""hosts.yaml: the known hosts and how to reach each; and what a host word on the command line means."""

import sys
from collections.abc import Iterable
from dataclasses import field, replace
from importlib.util import find_spec
from pathlib import Path

from launcher.config import host_ranges
from launcher.config.host_names import HOST_RULE, USER_RULE, is_host, is_ip, is_plain_host, is_user
from launcher.config.via_options import Via, check_via
from launcher.config.yaml_tree import hint_nearest
from launcher.errors import BadInput, ConfigError
from preflight import regex as re
from preflight.frozen import dataclass
from preflight.job import Expect, GpuRequest, Job

FILE_NAME = "hosts.yaml"
LOCALHOST = "localhost"
ALL = "all"
_NUMBER = re.compile(r"[0-9]+")
_SSH_PORT = 22


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host as hosts.yaml or the command line gives it.

    Empty values mean that hosts.yaml says nothing, so ssh_config decides, then the default. `alias` is the
    name to look up in ssh_config. `jump` of ("none",) means directly, whatever ssh_config says.
    `identity_file` is a local path with `~` expanded; `python` and `workdir` are paths on the host, as
    written.
    """

    name: str
    address: str = ""
    port: int | None = None
    user: str = ""
    identity_file: str = ""
    jump: tuple[str, ...] = ()
    python: str = "python3"
    workdir: str = ""
    gpus: GpuRequest = "all"
    gpus_source: str = "hosts.yaml gpus"  # who says so
    env: dict[str, str] = field(default_factory=dict)
    interface: str = ""
    ignore: frozenset[str] = frozenset()  # codes of checks
    expect: Expect = field(default_factory=Expect)
    via: Via | None = None
    alias: str = ""
    in_inventory: bool = True  # False: not in hosts.yaml
    names_python: bool = False  # hosts.yaml does, for it or in its defaults

    @property
    def is_local(self) -> bool:
        """Whether this is the machine we run on, reached without SSH; not what runs in a container of it."""
        return self.is_on_this_machine and self.via is None

    @property
    def is_on_this_machine(self) -> bool:
        """Whether this is the machine we run on, or what `via:` enters on it."""
        return self.name == LOCALHOST and not self.address


@dataclass(frozen=True, slots=True)
class Inventory:
    """The hosts and groups of one hosts.yaml. `path` None: there is none; names then work as with ssh."""

    path: Path | None = None
    hosts: dict[str, HostEntry] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # flattened to host names
    defaults: HostEntry = field(default_factory=lambda: HostEntry(""))
    identity_file: str = ""  # a local path: the key that the user names for all hosts, this time
    access_words: tuple[str, ...] = ()  # the options by which the user named this file and the key, quoted

    def resolve(self, words: Iterable[str]) -> tuple[HostEntry, ...]:
        """Return the hosts that words name, each once, in the order given.

        A word is a name, a range, a group (`ada` or `@ada`), `all`, `localhost`, such words with `!` between
        them, or, as with ssh, an unlisted `host`, `user@host`, `user@host:port`, `[::1]:22`. Raises BadInput.
        """
        found: dict[str, HostEntry] = {}
        for word in dict.fromkeys(words):
            for entry in map(self.lookup, self._expand(word)):
                found[entry.name] = entry
            if len(found) > host_ranges.MAX_HOSTS:
                raise BadInput(f"more than {host_ranges.MAX_HOSTS} hosts are named")
        if not found:
            raise BadInput("no host is named", "name at least one host, a group, or all")
        return tuple(found.values())

    def lookup(self, word: str) -> HostEntry:
        """Return the one host that a single word names, listed or not. Raises BadInput."""
        if word in self.hosts:
            return self.hosts[word]
        if word == LOCALHOST:
            return HostEntry(LOCALHOST, python=find_local_python(), alias=LOCALHOST, in_inventory=False)
        spot = host_ranges.parse_ssh_target(word)
        listed = self._listed_at(word, spot)
        if listed is not None:
            return listed
        return replace(
            self.defaults,
            name=word,
            user=spot.user or self.defaults.user,
            port=spot.port or self.defaults.port,
            alias=spot.host,
            in_inventory=False,
        )

    def _listed_at(self, word: str, spot: host_ranges.SshTarget) -> HostEntry | None:
        """Return the listed host that user@host:port means, None where none or several are that.

        By its name it may be given another user or port, as a Host of ssh_config; by its address not.
        """
        named = self.hosts.get(spot.host)
        if named is not None and not is_ip(spot.host):  # at an IP address each port can be another machine
            user, port = spot.user or named.user, spot.port or named.port
            if (user, port) == (named.user, named.port):
                return named
            return replace(named, name=word, user=user, port=port, in_inventory=False)
        if not spot.user:
            return None  # before a look at every host, which many words would multiply
        fit = [
            entry
            for entry in self.hosts.values()
            if (entry.address or entry.name, entry.user) == (spot.host, spot.user)
            and (entry.port or _SSH_PORT) == (spot.port or _SSH_PORT)
        ]
        return fit[0] if len(fit) == 1 else None

    def suggest(self, name: str, others: Iterable[str] = ()) -> str:
        """Return the host or group, listed or of `others`, whose name is most like `name`, or ""."""
        every = dict.fromkeys((*self.hosts, *self.groups, *others, *(ALL,) * bool(self.hosts)))
        names = [each for each in every if not _numbered_alike(each, name)]
        begun = [each for each in names if each.startswith(name)]
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        close = begun or get_close_matches(name, names, n=1, cutoff=0.75)
        return close[0] if close else ""

    def _expand(self, word: str) -> tuple[str, ...]:
        if word in self.hosts:
            return (word,)
        if word == ALL:
            if not self.hosts:
                lack = f"{self.path} lists no hosts" if self.path else f"{FILE_NAME} was not found"
                does = "prints what to write into it" if self.path else "writes it"
                raise BadInput(
                    f"all: {lack}", f"gpulaunch init --hosts WORDS {does}; or name hosts as for ssh"
                )
            return tuple(self.hosts)
        if word.removeprefix("@") in self.groups:
            return self.groups[word.removeprefix("@")]
        if word.startswith("@") and not host_ranges.has_operator(word):
            raise BadInput(f"{word}: no such group" + hint_nearest(word[1:], tuple(self.groups)))
        parts = host_ranges.split_ranges(word)
        if parts and parts != [word]:
            return tuple(name for part in parts for name in self._expand(part))
        return host_ranges.expand_ranges(word, self.groups | {ALL: tuple(self.hosts)}, self.hosts)


def _numbered_alike(name: str, other: str) -> bool:
    """Whether only numbers differ that both names have: `l40s-02` is not a misspelling of `l40s-04`."""
    numbers = [[number.lstrip("0") for number in _NUMBER.findall(each)] for each in (name, other)]
    return all(numbers) and numbers[0] != numbers[1] and _NUMBER.sub("", name) == _NUMBER.sub("", other)


def check_entry(entry: HostEntry, *, sent: bool = False) -> str:
    """Return why an entry, whatever its origin, cannot be a host, "" where it can.

    `sent` is for entries that a host reported: they name hosts by IP addresses and DNS names only.
    """
    host_fits, rule = (is_plain_host, "an IP address or a DNS name") if sent else (is_host, HOST_RULE)
    try:
        spots = [
            host_ranges.parse_ssh_target(word.removeprefix("ssh://")) for word in (entry.name, *entry.jump)
        ]
    except BadInput as error:
        return error.message
    hosts = (entry.alias, entry.address, *(spot.host for spot in spots))
    for host in hosts:
        if host and not host_fits(host):
            return f'"{host}" is not a host: expected {rule}'
    if entry.user and not is_user(entry.user):
        return f'"{entry.user}" is not a user: the name may hold {USER_RULE}'
    if entry.port is not None and not 0 < entry.port <= 65535:
        return f"{entry.port} is not a port: expected 1 to 65535"
    return check_via(entry.via) if entry.via else ""


def find_local_python() -> str:
    """Return localhost's interpreter: ours where torch is beside us, else python3 on the PATH."""
    return sys.executable if find_spec("torch") else "python3"


def resolve_rank_counts(job: Job, inventory: Inventory) -> Job:
    """Return the job with `processes_per_host` by host name, where it was given by ranges and groups.

    Raises BadInput for a word that names nothing, and ConfigError for a host that two words give two numbers.
    """
    if not isinstance(job.processes_per_host, dict):
        return job
    counts: dict[str, int] = {}
    for word, count in job.processes_per_host.items():
        for entry in inventory.resolve([word]):
            if counts.setdefault(entry.name, count) != count:
                raise ConfigError(
                    f"processes_per_host: {entry.name} gets {counts[entry.name]} ranks, {count} by {word}",
                    "name each host once",
                )
    return replace(job, processes_per_host=counts)
