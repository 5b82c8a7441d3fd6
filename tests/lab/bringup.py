"""Bringing a lab up and taking it down: its subnet, its description, its one root process."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ClusterShell.NodeSet import NodeSet

from tests.lab import files, kernel, layout
from tests.lab.layout import HostSpec, LabSpec
from tests.lab.processes import Control

REPOSITORY = Path(__file__).resolve().parents[2]
BOOT_TIMEOUT_S = 120.0
SUBNETS = 250


class LabError(Exception):
    """The lab could not be brought up or down."""


def down(out: Path) -> None:
    """Remove the lab in `out`, whatever is left of it; nothing happens when there is none."""
    out = out.resolve()
    try:
        spec = layout.load(out)
    except (FileNotFoundError, json.JSONDecodeError):
        return
    subprocess.run(["ip", "link", "del", "dev", spec.interface], capture_output=True, check=False)
    if spec.root_pid and layout.start_time(spec.root_pid) == spec.root_start:
        os.kill(spec.root_pid, signal.SIGKILL)
        _await_end(spec)
    shutil.rmtree(out / "control")
    shutil.rmtree(out / "shared", ignore_errors=True)
    files.remove_all(out)
    with contextlib.suppress(OSError):
        out.rmdir()


def _await_end(spec: LabSpec) -> None:
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    while layout.start_time(spec.root_pid) == spec.root_start:
        state = Path(f"/proc/{spec.root_pid}/stat")
        with contextlib.suppress(OSError):
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        if time.monotonic() > deadline:
            raise LabError(f"process {spec.root_pid} of the lab in {spec.out} survives SIGKILL")
        time.sleep(0.01)


def host_names(hosts: int | str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(hosts, int):
        width = len(str(hosts))
        return tuple(f"node-{number:0{width}d}" for number in range(1, hosts + 1))
    if isinstance(hosts, str):
        return tuple(str(name) for name in NodeSet(hosts))
    return tuple(hosts)


def new_spec(out: Path, names: Sequence[str], shares: tuple[str, ...], public: str) -> LabSpec:
    keys = [files.new_key()[0] for _ in names]
    octet = _take_octet(out)  # the first thing to leak, so the last one before the description is saved
    blank = LabSpec(str(out), octet, (), shares, public)
    hosts = tuple(
        HostSpec(
            name,
            index,
            blank.address(layout.FIRST_HOST + index),
            blank.address6(layout.FIRST_HOST + index),
            keys[index],
            secrets.token_hex(16),
        )
        for index, name in enumerate(names)
    )
    return LabSpec(blank.out, octet, hosts, blank.shares, public)


def _take_octet(out: Path) -> int:
    """Claim a subnet by creating the interface of its name, starting from the one that `out` hashes to."""
    first = zlib.crc32(str(out).encode()) % SUBNETS
    for attempt in range(SUBNETS):
        octet = (first + attempt) % SUBNETS + 1
        cable = ["ip", "link", "add", "name", f"glab{octet}", "type", "veth", "peer", "name", f"glab{octet}u"]
        done = subprocess.run(cable, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return octet
        if "File exists" not in done.stderr:
            raise LabError(f"cannot create an interface: {done.stderr.strip()}")
    raise LabError(f"{SUBNETS} labs are up already")


def shared_directories(out: Path, extra: Sequence[Path]) -> tuple[str, ...]:
    """Return the directories that all hosts see, none inside another. Raises LabError."""
    absent = [str(path) for path in extra if not path.is_dir()]
    if absent:
        raise LabError(f"cannot share what is no directory here: {', '.join(absent)}")
    wanted = {REPOSITORY, out / "shared", *(path.resolve() for path in extra)}
    interpreter = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1])
    wanted.update(
        path for path in interpreter if not path.is_relative_to("/usr")
    )  # every host's root has /usr
    return tuple(str(path) for path in sorted(wanted) if not any(other in path.parents for other in wanted))


def start(spec: LabSpec, *, keep: bool) -> "subprocess.Popen[str]":
    log = (Path(spec.out) / "control" / "log").open("w")
    argv = [sys.executable, "-m", "tests.lab.fabric", spec.out, *(["--keep"] if keep else [])]
    with log:
        keeper = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=REPOSITORY,
            start_new_session=True,
        )
    try:
        _expect(keeper, "cable", spec)
        pid = Control(Path(spec.out), "control").peer_pid()
        layout.save(replace(spec, root_pid=pid, root_start=layout.start_time(pid)))
        _plug(spec, pid)
        _say(keeper, "plugged")
        _expect(keeper, "ready", spec)
    except BaseException:
        let_go(keeper)
        raise
    return keeper


def _plug(spec: LabSpec, pid: int) -> None:
    """Give the far end of the cable to the lab and configure the near one."""
    address6 = f"address add {spec.address6(1)}/64 dev {spec.interface} nodad"
    commands = [
        f"link set dev {spec.interface}u netns {pid} name uplink",
        f"address add {spec.address(1)}/24 dev {spec.interface}",
        *([address6] if kernel.allow_ipv6(spec.interface) else []),
        f"link set dev {spec.interface} up",
        layout.silent_neighbour(spec, spec.interface),
    ]
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"cannot plug the lab in: {done.stderr.strip()}")


def _say(keeper: "subprocess.Popen[str]", text: str) -> None:
    assert keeper.stdin is not None
    keeper.stdin.write(text + "\n")
    keeper.stdin.flush()


def _expect(keeper: "subprocess.Popen[str]", wanted: str, spec: LabSpec) -> None:
    assert keeper.stdout is not None
    line = keeper.stdout.readline()
    answer: Any = json.loads(line) if line else (Path(spec.out) / "control" / "log").read_text()
    if answer != wanted:
        raise LabError(f"the lab did not come up: {answer}")


def let_go(keeper: "subprocess.Popen[str]") -> None:
    """Close its pipes, which ends a lab that is not kept, and collect it."""
    for pipe in (keeper.stdin, keeper.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    keeper.wait(BOOT_TIMEOUT_S)
