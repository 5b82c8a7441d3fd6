"""Lists of hosts in the forms of other tools, given in place of hosts.yaml: what to type instead."""

from collections.abc import Collection, Iterator

from launcher.config.host_names import is_host, is_ip
from launcher.config.yaml_tree import YamlNode, YamlValue
from launcher.errors import ConfigError

_MOST = 8
_OURS = ("defaults:", "groups:", "hosts:")


def advise_on_inventory(text: str) -> str:
    """Return what to type for an ssh_config, a hostfile, /etc/hosts or Ansible's INI, "" for others."""
    every = [words for line in text.splitlines() if (words := line.partition("#")[0].split())]
    lines = [words for words in every if words[0][0] != "[" and "=" not in words[0]]
    if any(words[0].lower() == "host" for words in lines):
        return "gpulaunch reads ~/.ssh/config anyway: leave -i out, and name its hosts as for ssh"
    names = dict.fromkeys(_names(lines))
    is_ours = any(words[0] in _OURS for words in lines)
    return "" if is_ours or not names or len(names) < len(lines) / 2 else _advise(names)


def _advise(names: Collection[str]) -> str:
    shown = ",".join([*names][:_MOST]) + ",..." * (len(names) > _MOST)
    return f"move it away: gpulaunch init --hosts {shown} writes one"


def refuse_ansible(root: YamlNode) -> None:
    """Raise ConfigError for an inventory of Ansible in YAML."""
    is_ours = isinstance(root.value, dict) and any(f"{key}:" in _OURS for key in root.value)
    if names := {} if is_ours else dict.fromkeys(_list_hosts(root.value)):
        advice = f"{_advise(names)}; ansible_host is address: in it, and ansible_user user:"
        raise ConfigError(f"{root.source}: an inventory of Ansible, expected one of gpulaunch", advice)


def _list_hosts(groups: YamlValue) -> Iterator[str]:
    """Yield the hosts of Ansible's groups: each has hosts: by name, and children: that are groups."""
    for group in groups.values() if isinstance(groups, dict) else ():
        parts = group.value if isinstance(group.value, dict) else {}
        for key, part in parts.items():
            if key == "children":
                yield from _list_hosts(part.value)
            elif key == "hosts" and isinstance(part.value, dict):
                yield from filter(is_host, part.value)


def _names(lines: list[list[str]]) -> Iterator[str]:
    for words in lines:
        name, colon, count = words[0].partition(":")  # a slot count, as MPI has it
        if len(words) > 1 and is_ip(words[0]):
            yield words[1]
        elif is_host(name) and count.isdigit() == bool(colon) and all("=" in word for word in words[1:]):
            yield name
