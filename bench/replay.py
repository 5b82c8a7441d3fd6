"""Simulated hosts that answer at once: an interpreter's stand-in gives what a real agent here had answered.

A hundred agents at work on the client's own cores slow every instruction of the client, as a hundred other
machines would not. The stand-in takes what gpulaunch sends, to the byte, and gives an answer of usual size.
The program that may follow, with its connects to the main host, is really run.
"""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from launcher.remote.agent import MARKER, AgentRequest, pack_payload
from launcher.remote.program_source import build_bootstrap_argv

_STAND_IN = """\
#!{python} -IS
import json, os, sys
if "-S" in sys.argv:  # not the agent, which wants the environment's packages
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
read, line = sys.stdin.buffer.read, sys.stdin.buffer.readline
line()
read(int(line()))
header = json.loads(line())
host = json.loads(read(header["request_len"]))["host"]
read(header["pynvml_len"])
body = open({answer!r}, "rb").read().replace({name!r}, json.dumps(host).encode(), 1)
sys.stdout.buffer.write(b"\\n" + {marker!r} + b"%d\\n" % len(body) + body)
sys.stdout.buffer.flush()
size = line() if header.get("stay_s") else b""
if size:
    import zlib
    exec(compile(zlib.decompress(read(int(size))), "next.py", "exec"), {{"__name__": "__main__"}})
"""
_NAME = "a-recorded-host"


def stand_in(folder: Path) -> Path:
    """Ask an agent here once, and write the program that repeats its answer."""
    request = AgentRequest(_NAME, ports=(29500,), free_ports=4)
    argv = build_bootstrap_argv(sys.executable, site=True)
    said = subprocess.run(
        argv, input=b"".join(pack_payload(request)), stdout=subprocess.PIPE, check=True
    ).stdout
    answer, program = folder / "answer.json", folder / "python-that-replays"
    answer.write_bytes(said.partition(MARKER)[2].partition(b"\n")[2])
    text = _STAND_IN.format(
        python=sys.executable, answer=str(answer), name=json.dumps(_NAME).encode(), marker=MARKER
    )
    program.write_text(text)
    program.chmod(0o755)
    return program


def replaying(inventory: Path, names: list[str]) -> Path:
    """Return hosts.yaml for the same names, each with the stand-in as its interpreter.

    It lies in `shared` beside the inventory, which the lab's hosts see, or right beside it.
    """
    shared = inventory.parent / "shared"
    program = stand_in(shared if shared.is_dir() else inventory.parent)
    entries = yaml.safe_load(inventory.read_text())["hosts"]
    hosts = {name: {**(entries[name] or {}), "python": str(program)} for name in names}
    file = inventory.with_name("replaying.yaml")
    file.write_text(yaml.safe_dump({"hosts": hosts}))
    return file
