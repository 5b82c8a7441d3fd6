"""The files that the suite leaves: the page, its JSON, and the recording of the machine."""

import getpass
import os
import re
import shutil
import socket
import tarfile
import time
from dataclasses import replace
from pathlib import Path

from tests.gpu import report, smi
from tests.gpu.board import ROOT, Board
from tests.gpu.ledger import Observation
from tests.gpu.suite import Result, Status

LARGEST_KEPT = 1 << 19


class Reporter:
    """Writes the report anew after each case. Files are named by GPU and day."""

    def __init__(self, board: Board, out: Path, commit: str, day: str) -> None:
        self._board = board
        self._start = time.monotonic()
        self._results: list[Result] = []
        xml = board.smi_xml()
        products = smi.names(xml)
        name = f"{len(products)}x{products[0]}".removeprefix("1x") if products else "unknown"
        self._title = f"{name}, {day}" + (" (simulated)" if board.simulated else "")
        stem = re.sub(r"[^a-z0-9]+", "-", f"{name} {day}".lower().replace("nvidia ", "")).strip("-")
        self._stem = f"simulated-{stem}" if board.simulated else stem
        self._about = report.machine(_of_smi(xml), board.torch, commit)
        out.mkdir(parents=True, exist_ok=True)
        self._out = out
        self._masks = _masks(board, xml)
        self.page_path = out / f"{self._stem}.md"

    def add(self, result: Result) -> None:
        """Take a result into the report, without what names this machine."""
        seen = [self._masked(one) for one in result.observations]
        self._results.append(replace(result, reason=self._mask(result.reason), observations=seen))
        self._write(complete=False)

    def finish(self) -> None:
        """Write the report as a whole one, and keep the recording."""
        self._write(complete=True)
        recording = self._board.scratch / "recording" / "recording.json"
        if recording.exists():
            shutil.copyfile(recording, self._out / f"{self._stem}.recording.json")
        failed = [each.name for each in self._results if each.status is Status.FAILED]
        if failed:
            self._pack(failed)

    def _pack(self, cases: list[str]) -> None:
        """Keep what failed cases and their runs wrote; the GPU may be gone when it is looked at."""
        with tarfile.open(self._out / f"{self._stem}.failed.tar.gz", "w:gz") as archive:
            for name in (*cases, "state"):
                path = self._board.scratch / name
                if path.exists():
                    archive.add(path, name, filter=_small)

    def _masked(self, one: Observation) -> Observation:
        what, observed, expected = (self._mask(text) for text in (one.what, one.observed, one.expected))
        return Observation(what, observed, expected, one.verdict)

    def _mask(self, text: str) -> str:
        for secret, word in self._masks.items():
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", word, text)
        return text

    def _write(self, *, complete: bool) -> None:
        seconds = time.monotonic() - self._start
        found = {**report.document(self._about, self._results, seconds), "complete": complete}
        _replace(self._out / f"{self._stem}.json", report.to_json(found))
        _replace(
            self.page_path, report.page(self._title, self._about, self._results, seconds, complete=complete)
        )


def _small(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return entry if entry.isdir() or (entry.isfile() and entry.size <= LARGEST_KEPT) else None


def _masks(board: Board, xml: str) -> dict[str, str]:
    """Return what a report for everybody must not hold, and the words in its place."""
    secrets = {str(board.scratch): "SCRATCH", str(ROOT): "CHECKOUT", str(Path.home()): "HOME"}
    secrets |= {socket.gethostname(): "HOST", _user(): "USER"}
    for index, gpu in enumerate(smi.gpus(xml)):
        secrets |= {smi.text(gpu, "uuid"): f"GPU-{index}", smi.text(gpu, "serial"): f"SERIAL-{index}"}
    plain = ("", "/", "root", "localhost")
    return {secret: word for secret, word in secrets.items() if secret not in plain}


def _user() -> str:
    """Return the user's name, "" for a user id without one, as containers have them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _of_smi(xml: str) -> dict[str, str]:
    gpus = smi.gpus(xml)
    driver = re.search(r"<driver_version>([^<]*)", xml)
    return {
        "GPUs": ", ".join(smi.names(xml)),
        "driver": driver.group(1).strip() if driver else "unknown",
        "compute mode": ", ".join(sorted({smi.text(gpu, "compute_mode") for gpu in gpus})),
        "MIG": ", ".join(sorted({smi.text(gpu, "mig_mode/current_mig") or "not supported" for gpu in gpus})),
    }


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
