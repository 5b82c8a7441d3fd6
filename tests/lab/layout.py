"""What a lab is, as plain values, and where its files lie. Shared by both sides of its control sockets."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

SUBNET = "10.77"
FIRST_HOST = 10  # hosts are .10, .11, ...; .1 is this machine
MAX_HOSTS = 240
DEAD = 254  # nobody holds it: the kernel says "no route to host" after three unanswered ARP requests
SILENT = 253  # a neighbour entry without a neighbour: packets vanish, a connect times out
SILENT_MAC = "02:00:00:00:00:fd"


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One simulated host. `index` counts from 0 and fixes its address and its port on the bridge."""

    name: str
    index: int
    address: str
    address6: str
    host_key: str  # private, OpenSSH format
    machine_id: str

    @property
    def port_name(self) -> str:
        """Return the name of its end on the lab's bridge."""
        return f"p{self.index}"

    @property
    def mac(self) -> str:
        """Return the address of its network card, which a reboot does not change."""
        return ":".join(f"{byte:02x}" for byte in (2, 0, *map(int, self.address.split("."))))


@dataclass(frozen=True, slots=True)
class LabSpec:
    """A whole lab. `octet` is the third one of its subnet; `shares` are the directories all hosts see."""

    out: str
    octet: int
    hosts: tuple[HostSpec, ...]
    shares: tuple[str, ...]
    authorized_key: str
    root_pid: int = 0  # the process whose end is the end of the lab
    root_start: int = 0
    home: str = ""  # the directory here that is root's home on every host; "": each has its own

    @property
    def interface(self) -> str:
        """Return the one interface that the lab has in the namespace of this machine."""
        return f"glab{self.octet}"

    def address(self, last: int) -> str:
        """Return an IPv4 address of this lab."""
        return f"{SUBNET}.{self.octet}.{last}"

    def address6(self, last: int) -> str:
        """Return an IPv6 address of this lab."""
        return f"fd77:0:0:{self.octet:x}::{last:x}"


def silent_neighbour(spec: LabSpec, device: str) -> str:
    """Return the `ip` command that makes the silent address swallow packets on `device`."""
    return f"neighbour add {spec.address(SILENT)} lladdr {SILENT_MAC} dev {device} nud permanent"


def spec_path(out: Path) -> Path:
    """Return where a lab's own description lies."""
    return out / "control" / "lab.json"


def save(spec: LabSpec) -> None:
    """Write the description, readable by root only: it holds private host keys."""
    path = spec_path(Path(spec.out))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(spec)))


def load(out: Path) -> LabSpec:
    """Read the description back. Raises FileNotFoundError when there is no lab in `out`."""
    data = json.loads(spec_path(out).read_text())
    hosts = tuple(HostSpec(**host) for host in data.pop("hosts"))
    shares = tuple(data.pop("shares"))
    return LabSpec(hosts=hosts, shares=shares, **data)


def start_time(pid: int) -> int:
    """Return field 22 of /proc/PID/stat (clock ticks since boot), 0 when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])
