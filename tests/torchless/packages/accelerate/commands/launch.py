"""`accelerate launch` for ranks without torch: starts those of a node, each with its place in the world.

One that fails ends the others. A world of one gets no place, as from accelerate.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType


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


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Launch: --option VALUE ... PROGRAM args."""
    words = sys.argv[1:]
    while words[0].startswith("--"):
        words = words[2:]
    signal.signal(signal.SIGTERM, _end)
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for place in _places(Path(words[0]).parent):
            env = {**os.environ, **place}
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
