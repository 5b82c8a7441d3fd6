"""Field note 4's "race for cuda:0": no race. A codec on cuda:0 in every rank takes rank 0's only context."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.field_notes.ranks import shimmed

pytestmark = pytest.mark.train

CODEC = """
import os, sys, time, torch
rank = int(os.environ["LOCAL_RANK"])
codec = torch.nn.Linear(2, 2).to(torch.device(CODEC_DEVICE))
model = torch.nn.Linear(2, 2).to(f"cuda:{rank}")
print("READY", flush=True)
sys.stdin.read()
"""


class Ranks:
    """Processes that each hold what they have opened until they are let go."""

    def __init__(self, root: Path, codec: str) -> None:
        self.root = root
        self.script = root / "train.py"
        self.script.write_text(CODEC.replace("CODEC_DEVICE", codec))
        self.running: list[subprocess.Popen[str]] = []

    def start(self, rank: int) -> str:
        """Start a rank; return its first line, or the last of its traceback."""
        env = shimmed("pretended_gpus", SHIM_EXCLUSIVE=str(self.root), CUDA_VISIBLE_DEVICES="GPU-a,GPU-b")
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, str(self.script)],
            env=env | {"LOCAL_RANK": str(rank)},
            text=True,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        self.running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line:
            return line
        return process.communicate()[1].strip().splitlines()[-1]

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.communicate("")


def test_a_codec_on_cuda_0_fails_every_rank_but_the_first_every_time(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, "'cuda:0'")
    try:
        assert ranks.start(0) == "READY"
        for _ in range(2):
            assert "busy or unavailable" in ranks.start(1)
    finally:
        ranks.end()


def test_each_ranks_own_device_cures_it(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, "f'cuda:{rank}'")
    try:
        assert [ranks.start(0), ranks.start(1)] == ["READY", "READY"]
    finally:
        ranks.end()
