"""Make failures for real, and keep what was printed as test data.

    python -m tests.failures.provoke [--only NAME ...] [--out tests/preflight/logs/recorded]

Needs root (mounts in a mount namespace of their own), torch, accelerate, transformers; no network. A kind
that needs a GPU, or what else this machine lacks, is left out.
One failure at a time. Paths, host name and interpreter are masked; nothing else is changed.
"""

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.failures.kinds import KINDS, SCRIPT, Kind

HERE = Path(__file__).parent
RECORDED = HERE.parent / "preflight" / "logs" / "recorded"
MOST_BYTES = 24 << 10
"""A log longer than this keeps its beginning and its end."""


def main() -> None:
    """Provoke what was asked for, and write one file each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=RECORDED)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        if options.only and kind.name not in options.only:
            continue
        lacking = lack_for(kind)
        if lacking:
            print(f"{kind.slug:26} {kind.name:26} left out: {lacking}", flush=True)
            continue
        text = provoke(kind)
        (options.out / file_name(kind)).write_text(text, encoding="utf-8")
        print(f"{kind.slug:26} {kind.name:26} {len(text):6} bytes", flush=True)


def lack_for(kind: Kind) -> str:
    """Return what this machine lacks for a kind, "" where it has all."""
    if kind.gpu and not Path("/dev/nvidiactl").exists():
        return "no NVIDIA GPU"
    found = not kind.needs or shutil.which(kind.needs) or importlib.util.find_spec(kind.needs)
    return "" if found else f"no {kind.needs}"


def file_name(kind: Kind) -> str:
    """Return the name of a kind's log: its class, then itself."""
    return f"{kind.slug}__{kind.name}.txt"


def provoke(kind: Kind) -> str:
    """Run a kind in a directory of its own and return what it printed, masked."""
    with tempfile.TemporaryDirectory(prefix="failure-") as name:
        directory = Path(name)
        (directory / SCRIPT).write_text(kind.script, encoding="utf-8")
        if kind.prepare:
            words, env = [sys.executable, "-c", kind.prepare], _environ(kind, directory)
            subprocess.run(words, cwd=directory, env=env, check=True, timeout=120)
        done = subprocess.run(
            _argv(kind),
            cwd=directory,
            env=_environ(kind, directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=kind.timeout_s,
            check=False,
        )
        return _shortened(_masked(done.stdout.decode("utf-8", "replace"), directory))


def _argv(kind: Kind) -> Sequence[str]:
    run = [sys.executable, SCRIPT]
    if kind.ranks:
        port = () if kind.torchrun else ("--master_port", str(_free_port()))
        run = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(kind.ranks), *port]
        run += [*kind.torchrun, SCRIPT]
    if not kind.shell:
        return run
    return ["bash", "-c", kind.shell.format(run=shlex.join(run), python=shlex.quote(sys.executable))]


def _environ(kind: Kind, directory: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    quiet = {
        "HOME": str(directory),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "TORCHELASTIC_ERROR_FILE": "",
    }
    return {**kept, **quiet, **dict(kind.environ)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _masked(text: str, directory: Path) -> str:
    prefix = Path(sys.executable).parent.parent
    for real, mask in (
        (str(directory), "/workspace/run"),
        (str(prefix), "/opt/venv"),
        (str(Path(sys.base_prefix)), "/usr"),
        (socket.gethostname(), "node-1"),
    ):
        text = text.replace(real, mask)
    return re.sub(r"/tmp/failure-\w+", "/workspace/run", text)


def _shortened(text: str) -> str:
    if len(text) <= MOST_BYTES:
        return text
    return f"{text[: MOST_BYTES // 2]}\n[...]\n{text[-MOST_BYTES // 2 :]}"


if __name__ == "__main__":
    main()
