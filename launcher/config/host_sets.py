"""Names of hosts as people write them: folded into node sets. Pure."""

from collections.abc import Iterable


def host_range(hosts: Iterable[str]) -> str:
    """Return "l40s-[01-07],titan" for host names; names that are not node-set syntax stay as they are."""
    names = list(dict.fromkeys(hosts))
    plain = [name for name in names if name.replace("-", "").replace("_", "").replace(".", "").isalnum()]
    other = [name for name in names if name not in plain]
    if len(plain) < 2:
        return ",".join([*plain, *other])
    from ClusterShell.NodeSet import NodeSet  # noqa: PLC0415 - 40 ms that one host need not pay

    return ",".join([str(NodeSet.fromlist(plain)), *other])
