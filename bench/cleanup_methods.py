"""What the usual ways of freeing GPUs end, beside clean-zombies, on the same hosts with the same truth.

    python -m bench.cleanup_methods [HOSTS]

Each host is one of the random process tables of tests/preflight/scenes.py, in which it is known who lives,
who is left over, and who is somebody else's; then as many of tests/preflight/container_scenes.py: containers
and pods of every shape, seen from inside or from their host, by root or another user. The other ways are what
people type:
`fuser -k /dev/nvidia*` signals every process of theirs that has a GPU file open (it reads /proc/PID/fd only,
so it does not see a zombie leader's threads); "kill what nvidia-smi lists" signals every pid that the driver
names; `pkill -9 -u $USER python` signals by name. Prints a table for each kind of host; exits with 1 if we
have ended what lives.
"""

import sys
from collections.abc import Callable

from preflight.leftovers.classify import classify_processes
from preflight.leftovers.process_tree import get_gpu_files, is_half_dead
from preflight.leftovers.selection import CleanFilter, select_to_kill
from tests.preflight.container_scenes import container_scene, own
from tests.preflight.scenes import Scene, random_scene

DEFAULT_HOSTS = 3000


def by_fuser(scene: Scene) -> set[int]:
    """fuser -k /dev/nvidia*"""
    return {
        pid
        for pid, process in scene.processes.items()
        if process.uid == scene.caller and get_gpu_files(process) and not is_half_dead(process)
    }


def by_nvml(scene: Scene) -> set[int]:
    """kill $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)"""
    listed = {pid for pids in scene.listed.values() for pid in pids}
    return own(scene, {pid for pid in listed if pid in scene.processes})


def by_name(scene: Scene) -> set[int]:
    """pkill -9 -u $USER python"""
    return {
        pid
        for pid, process in scene.processes.items()
        if process.uid == scene.caller and "python" in process.comm and process.state not in "ZX"
    }


def by_us(scene: Scene) -> set[int]:
    """gpulaunch clean-zombies --yes"""
    choice = select_to_kill(classify_processes(scene.facts()), CleanFilter())
    return {each.process.pid for each in (*choice.automatic, *choice.needs_confirmation)}


WAYS: tuple[Callable[[Scene], set[int]], ...] = (by_fuser, by_nvml, by_name, by_us)


def compare(what: str, scenes: list[Scene]) -> int:
    """Print the table of one kind of host; return how many live processes we ended ourselves."""
    leftovers = [own(scene, scene.provable) for scene in scenes]
    total = sum(len(scene.processes) for scene in scenes)
    print(f"{len(scenes)} {what}, {total} processes, {sum(map(len, leftovers))} provable leftovers")
    print(f"{'way':<75} {'live ended':>10} {'hosts hit':>9} {'missed':>7}")
    wrong: list[int] = []
    for way in WAYS:
        ended = [way(scene) for scene in scenes]
        wrong = [len(e - s.provable - s.allowed) for e, s in zip(ended, scenes, strict=True)]
        missed = sum(len(left - e) for e, left in zip(ended, leftovers, strict=True))
        print(f"{way.__doc__:<75} {sum(wrong):>10} {sum(map(bool, wrong)):>9} {missed:>7}")
    return sum(wrong)


def main() -> int:
    """Print the tables."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_HOSTS
    live = compare("hosts", [random_scene(seed) for seed in range(hosts)])
    live += compare("containers and hosts of containers", [container_scene(seed) for seed in range(hosts)])
    return 1 if live else 0


if __name__ == "__main__":
    sys.exit(main())
