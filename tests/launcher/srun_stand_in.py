"""srun as it treats the tasks of one step: all get the same input, and their lines are mixed. Without Slurm.

python srun_stand_in.py COUNT_FILE NODE... -- COMMAND...

COUNT_FILE holds in the end how many bytes of input each task got.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def main() -> int:
    at = sys.argv.index("--")
    counted, nodes, command = sys.argv[1], sys.argv[2:at], sys.argv[at + 1 :]
    lock, pipe = threading.Lock(), subprocess.PIPE

    def mix(lines: IO[bytes]) -> None:
        for line in lines:
            with lock:
                os.write(1, line)

    tasks = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, "SLURMD_NODENAME": node})
        for node in nodes
    ]
    readers = [threading.Thread(target=mix, args=(task.stdout,)) for task in tasks]
    for reader in readers:
        reader.start()
    total = 0
    while data := os.read(0, 1 << 16):
        total += len(data)
        for task in tasks:
            assert task.stdin is not None
            task.stdin.write(data)
            task.stdin.flush()
    for task in tasks:
        assert task.stdin is not None
        task.stdin.close()
    for reader in readers:
        reader.join()
    Path(counted).write_text(str(total))
    return max(task.wait() for task in tasks)


if __name__ == "__main__":
    sys.exit(main())
