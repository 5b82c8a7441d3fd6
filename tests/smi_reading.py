"""A saved output of nvidia-smi of one host, as most tests read one."""

from preflight.errors import BadInput
from preflight.facts.host import HostFacts
from preflight.smi_reports import parse_hosts


def parse_smi(text: str, host: str) -> HostFacts:
    """Return what a text says about its only host; raises BadInput as `parse_hosts`, and for several."""
    found = parse_hosts(text, host)
    if len(found) > 1:
        raise BadInput(f"several hosts: {', '.join(facts.host for facts in found)}", "use parse_hosts")
    return found[0]
