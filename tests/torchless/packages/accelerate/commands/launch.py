"""`accelerate launch` for ranks without torch: starts those of a node, each with its place in the world.

One that fails ends the others. A world of one gets no place, as from accelerate, but precision and device.
A rank that imports accelerate gets the real one.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

PACKAGES = str(Path(__file__).parents[2])


def _places(run_dir: Path) -> list[dict[str, str]]:
    world = json.loads((run_dir / "expected.json").read_text())
    if world["world_size"] == 1:
        return [{}]
    size, local = world["world_size"], world["local_world_size"]
    return [
        {
            "RANK": str(world["first_rank"] + number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(local),
        }
        for number in range(local)
    ]


def _settings(config: Path) -> dict[str, str]:
    """Return what accelerate takes from its YAML into the environment of the ranks."""
    rows = dict(line.split(": ", 1) for line in config.read_text().splitlines() if ": " in line)
    wanted = {
        "ACCELERATE_MIXED_PRECISION": "mixed_precision",
        "ACCELERATE_USE_CPU": "use_cpu",
        "MASTER_ADDR": "main_process_ip",
        "MASTER_PORT": "main_process_port",
    }
    return {name: str(json.loads(rows[key])) for name, key in wanted.items() if key in rows}


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Launch: --option VALUE ... PROGRAM args."""
    words = sys.argv[1:]
    settings = _settings(Path(words[words.index("--config_file") + 1]))
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    settings["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != PACKAGES)
    while words[0].startswith("--"):
        words = words[2:]
    signal.signal(signal.SIGTERM, _end)
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for place in _places(Path(words[0]).parent):
            env = {**os.environ, **settings, **place}
            ranks.append(subprocess.Popen([sys.executable, *words], env=env, start_new_session=True))
        while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
            time.sleep(0.05)
        first = next((number for number, rank in enumerate(ranks) if rank.returncode), None)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.terminate()
        for rank in ranks:
            rank.wait()
    if first is not None:
        raise subprocess.CalledProcessError(ranks[first].returncode, words)  # as accelerate's simple launcher


if __name__ == "__main__":
    main()
