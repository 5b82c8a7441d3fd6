"""Lists of hosts in the forms of other tools, given in place of hosts.yaml: what to type instead."""

from collections.abc import Iterator

from launcher.config.host_names import is_host, is_ip

_MOST = 8


def advise_on_inventory(text: str) -> str:
    """Return what to type for an ssh_config, a hostfile, /etc/hosts or Ansible's INI, "" for others."""
    lines = [words for line in text.splitlines() if (words := line.partition("#")[0].split())]
    if any(words[0].lower() == "host" for words in lines):
        return "gpulaunch reads ~/.ssh/config anyway: leave -i out, and name its hosts as for ssh"
    names = dict.fromkeys(_names(lines))
    if not names or len(names) < len(lines) / 2:
        return ""
    shown = ",".join([*names][:_MOST]) + ",..." * (len(names) > _MOST)
    return f"move it away: gpulaunch init --hosts {shown} writes one"


def _names(lines: list[list[str]]) -> Iterator[str]:
    for words in lines:
        name, colon, count = words[0].partition(":")  # a slot count, as MPI has it
        if len(words) > 1 and is_ip(words[0]):
            yield words[1]
        elif is_host(name) and count.isdigit() == bool(colon) and all("=" in word for word in words[1:]):
            yield name
