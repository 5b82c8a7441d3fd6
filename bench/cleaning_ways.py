"""What the usual ways of freeing GPUs end, beside clean-zombies, on the same hosts with the same truth.

    python -m bench.cleaning_ways [HOSTS]

Each host is one of the random process tables of tests/preflight/scenes.py, in which it is known who lives,
who is left over, and who is somebody else's. The other ways are what people type as an ordinary user:
`fuser -k /dev/nvidia*` signals every process of theirs that has a GPU file open (it reads /proc/PID/fd only,
so it does not see a zombie leader's threads); "kill what nvidia-smi lists" signals every pid that the driver
names; `pkill -9 -u $USER python` signals by name. Prints a table and exits 0.
"""

import sys
from collections.abc import Callable

from preflight.cleaning import Wish, choose
from preflight.leftovers import classify
from preflight.process_tree import gpu_files, is_half_dead
from tests.preflight.scenes import ME, Scene, random_scene

DEFAULT_HOSTS = 3000


def by_fuser(scene: Scene) -> set[int]:
    """fuser -k /dev/nvidia*"""
    return {
        pid
        for pid, process in scene.processes.items()
        if process.uid == ME and gpu_files(process) and not is_half_dead(process)
    }


def by_nvml(scene: Scene) -> set[int]:
    """kill $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)"""
    listed = {pid for pids in scene.listed.values() for pid in pids}
    return {pid for pid in listed if pid in scene.processes and scene.processes[pid].uid == ME}


def by_name(scene: Scene) -> set[int]:
    """pkill -9 -u $USER python"""
    return {
        pid
        for pid, process in scene.processes.items()
        if process.uid == ME and "python" in process.comm and process.state not in "ZX"
    }


def by_us(scene: Scene) -> set[int]:
    """gpulaunch clean-zombies --yes"""
    choice = choose(classify(scene.facts()), Wish())
    return {each.process.pid for each in (*choice.at_once, *choice.after_yes)}


WAYS: tuple[Callable[[Scene], set[int]], ...] = (by_fuser, by_nvml, by_name, by_us)


def main() -> int:
    """Print the table."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_HOSTS
    scenes = [random_scene(seed) for seed in range(hosts)]
    provable = sum(len(scene.provable) for scene in scenes)
    print(f"{hosts} hosts, {sum(len(s.processes) for s in scenes)} processes, {provable} provable leftovers")
    print(f"{'way':<75} {'live ended':>10} {'hosts hit':>9} {'missed':>7}")
    for way in WAYS:
        wrong = [len(way(scene) - scene.provable - scene.allowed) for scene in scenes]
        missed = sum(len(scene.provable - way(scene)) for scene in scenes)
        print(f"{way.__doc__:<75} {sum(wrong):>10} {sum(map(bool, wrong)):>9} {missed:>7}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
