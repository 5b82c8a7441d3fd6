"""Directories of finished runs, and the report page read as a tree."""

import json
from html.parser import HTMLParser
from pathlib import Path

from launcher.rundir.log_store import LogStore

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"


class Tags(HTMLParser):
    """Every element that a browser would see, with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def make_run(directory: Path, *, evil: str = "") -> Path:
    run = directory / "job-1"
    book = LogStore(run)
    run.mkdir(parents=True)
    book.add_event("started")
    log = "".join(
        f"step {step} loss: {4 / step:.4f} grad_norm: 1.0{evil}\n" for step in range(1, 51)
    ).encode()
    book.write("titan", "rank-0.log", 0, log)
    book.add_event(f"2 ranks as planned{evil}")
    tail = f"step 51 loss: nan lr=1e-3{evil}\n".encode()
    book.write("titan", "rank-0.log", len(log), tail)
    book.add_event(f"rank 1 failed{evil}", bad=True)
    book.close()
    slots = [
        {"local_rank": n, "gpu_uuid": f"GPU-{n}", "gpu_index": n, "gpu_name": f"L40S{evil}"} for n in (0, 1)
    ]
    plan = {
        "run_id": f"job-1{evil}",
        "job": f"job{evil}",
        "world_size": 2,
        "mixed_precision": "bf16",
        "nodes": [{"host": "titan", "first_rank": 0, "ranks": {"slots": slots}, "command": f"python{evil}"}],
        "changes": [{"field": "--mixed_precision", "old": "fp16", "new": "bf16", "why": f"the model{evil}"}],
        "reasons": [{"text": f"because{evil}", "source": f"source{evil}"}],
        "findings": [{"code": "GPU003", "severity": "warning", "hosts": ["titan"], "message": f"warm{evil}"}],
    }
    outcome = {
        "verdict": "failed",
        "why": f"rank 1 failed{evil}",
        "exit_code": 1,
        "seconds": 3723.5,
        "ranks": [{"rank": 0, "host": "titan", "code": -15}, {"rank": 1, "host": "titan", "code": 1}],
        "root_cause": {
            "summary": f"boom{evil}",
            "location": f"x.py:1{evil}",
            "host": "titan",
            "last_lines": [f"E{evil}"],
        },
        "diagnosis": {"causes": [{"code": "S20", "cause": f"full{evil}", "fix": f"a smaller batch{evil}"}]},
    }
    source = {
        "commit": "c" * 40,
        "dirty": True,
        "diff": f"+x{evil}",
        "branch": f"main{evil}",
        "from": f"/x{evil}",
    }
    for name, document in (("plan", plan), ("outcome", outcome), ("source", source)):
        (run / f"{name}.json").write_text(json.dumps(document))
    return run


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


PLAN = {
    "nodes": [
        {
            "host": "titan",
            "first_rank": 0,
            "ranks": {"slots": [{"local_rank": n, "gpu_uuid": f"GPU-{n}"} for n in (0, 1)]},
        }
    ]
}


def sample(t: float, busy: float | None = 90.0, **more: object) -> str:
    gpus = {f"GPU-{n}": {"busy": busy, "memory_mib": 1024.0 * (n + 1), "power_w": None} for n in (0, 1)}
    ranks = {str(n): {"rss_mib": 512.0, "cpu": 50.0} for n in (0, 1)}
    return json.dumps({"event": "usage", "t": t, "gpus": gpus, "ranks": ranks, **more}) + "\n"


def with_usage(run: Path, *lines: str) -> Path:
    (run / "titan").mkdir(exist_ok=True)
    (run / "titan" / "usage.jsonl").write_text("".join(lines))
    return run
