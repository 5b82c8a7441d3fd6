"""The doors: for each, what reads the text of others, with what follows from it as far as that is pure."""

import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent

Read = Callable[[bytes], None]


@dataclass(frozen=True)
class Door:
    """One door. `open` imports and returns its reader; `seeds` are inputs that other tests have.

    `corpus/NAME/` holds inputs of its own, `words/NAME` what its texts are made of, one on each line.
    """

    name: str
    open: Callable[[Path], Read]
    seeds: tuple[str, ...] = ()
    is_json: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What is put into inputs as a whole."""
        path = HERE / "words" / self.name
        return tuple(path.read_text("utf-8").split("\n")[:-1]) if path.exists() else ()

    def corpus(self, rng: random.Random, most: int) -> Iterator[bytes]:
        """Yield its own inputs, then some of its seeds."""
        seeds = [path for glob in self.seeds for path in sorted(TESTS.glob(glob)) if path.is_file()]
        chosen = rng.sample(seeds, min(most, len(seeds)))
        for path in [*sorted((HERE / "corpus" / self.name).glob("*")), *chosen]:
            yield path.read_bytes()


def _facts(_: Path) -> Read:
    from launcher.remote.agent import decode_document
    from preflight.checks.finding import encode_finding
    from preflight.checks.runner import check_cluster, check_host
    from preflight.job import Expect, Job

    def read(data: bytes) -> None:
        facts = decode_document("titan", _recorded(data), "titan")
        job = Job(script="train.py")
        found = [
            *check_host(facts, job, Expect()),
            *check_cluster({facts.host: facts, "other": facts}, job, ()),
        ]
        crashed = [item.message for item in found if "the check itself failed" in item.message]
        assert not crashed, crashed
        json.dumps([encode_finding(item) for item in found], allow_nan=False)

    return read


def _recorded(data: bytes) -> bytes:
    """Return the facts of a recording (`gpulaunch record`), the input itself where it is none."""
    try:
        document = json.loads(data)
        return json.dumps(document["facts"]).encode("utf-8", "surrogatepass")
    except (ValueError, TypeError, LookupError, RecursionError):
        return data


def _smi(_: Path) -> Read:
    from preflight.checks.runner import check_host
    from preflight.job import Expect, Job
    from preflight.smi_reports import parse_hosts

    def read(data: bytes) -> None:
        for facts in parse_hosts(data.decode("utf-8", "replace"), "saved"):
            found = check_host(facts, Job(), Expect(), asked_only=True)
            crashed = [item.message for item in found if "the check itself failed" in item.message]
            assert not crashed, crashed

    return read


def _frames(_: Path) -> Read:
    from launcher.follow.protocol import Frame, FrameReader, ProtocolError

    def take(chunks: list[bytes]) -> list[Frame]:
        reader = FrameReader()
        frames: list[Frame] = []
        try:
            for chunk in chunks:
                frames += reader.feed(chunk)
        except ProtocolError:
            pass
        return frames

    def read(data: bytes) -> None:
        size = 1 + len(data) % 61
        parts = [data[at : at + size] for at in range(0, len(data), size)] if len(data) < 20_000 else [data]
        assert take([data]) == take(parts), "the frames depend on how the bytes were cut"

    return read


def _records(_: Path) -> Read:
    from launcher import safe_json as hostjson
    from launcher.planning.run_record import read_record

    def read(data: bytes) -> None:
        try:
            document = hostjson.loads(data)
        except ValueError:
            return
        launched = read_record(document)
        assert all(entry.name for entry in launched.entries)

    return read


def _answers(_: Path) -> Read:
    from launcher import safe_json as hostjson
    from launcher.config.inventory import HostEntry
    from launcher.rundir.state_schema import validate_runs
    from launcher.runs.merged_runs import merge_node_runs
    from launcher.runs.render import encode_runs, render_runs

    titan, volta = HostEntry("titan", address="10.0.0.7"), HostEntry("volta", address="10.0.0.8")

    def read(data: bytes) -> None:
        try:
            document = hostjson.loads(data)
        except ValueError:
            return
        answer, _ = validate_runs(document if isinstance(document, dict) else {})
        parsed = merge_node_runs([(titan, answer, 10.0), (volta, answer, 10.0)])
        list(render_runs(parsed.runs, 10.0))
        json.dumps(encode_runs(parsed.runs, {}, parsed.strays), allow_nan=False)

    return read


def _run_dirs(folder: Path) -> Read:
    from launcher.report.html.page import render_page
    from launcher.report.summary import encode_summary, render_summary
    from launcher.rundir.layout import read_run

    run = folder / "train-20260101-120000-ab12"
    (run / "localhost").mkdir(parents=True)
    names = ("events.jsonl", "localhost/usage.jsonl", "localhost/rank-0.log", "localhost/state.json")
    ours = json.loads((HERE / "corpus/run_dirs/finished.json").read_text())
    for name in ("plan.json", "outcome.json"):  # written here, and no door
        (run / name).write_text(json.dumps(ours[name]))

    def read(data: bytes) -> None:
        try:
            held = json.loads(data)
        except (ValueError, RecursionError):
            held = {name: data.decode("utf-8", "replace") for name in names}
        for name in names:
            content = held.get(name, "") if isinstance(held, dict) else held
            if isinstance(content, list):
                content = "\n".join(json.dumps(line) for line in content)
            text = content if isinstance(content, str) else json.dumps(content)
            (run / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        found = read_run(run)
        list(render_summary(found, ascii_only=False))
        json.dumps(encode_summary(found), allow_nan=False)
        render_page(found)

    return read


def _yaml(folder: Path) -> Read:
    from launcher.config.inventory_reader import load_inventory
    from launcher.config.run_config import load_run_config
    from launcher.errors import BadInput

    path = folder / "input.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        try:
            inventory = load_inventory(path)
            for name in list(inventory.hosts)[:50]:
                inventory.resolve([name])
        except BadInput:
            pass
        load_run_config(str(path))

    return read


def _words(_: Path) -> Read:
    from launcher.config.inventory import Inventory

    def read(data: bytes) -> None:
        Inventory().resolve(data.decode("utf-8", "replace").splitlines()[:20])

    return read


def _commands(_: Path) -> Read:
    from launcher.engines.command_line.parse import parse_command, parse_line

    def read(data: bytes) -> None:
        for text in _texts(data):
            parsed = parse_line(text, {"A": "1 2", "HOME": "/root"})
            assert parsed.program in parsed.words
            parse_command(parsed.words)

    return read


def _logs(_: Path) -> Read:
    from launcher.report.diagnosis import encode_diagnosis, render_diagnosis
    from preflight.diagnosis.diagnose import diagnose_logs
    from preflight.diagnosis.lines import Log

    def read(data: bytes) -> None:
        logs = [Log(part, f"rank{index}.log") for index, part in enumerate(_texts(data))]
        found = diagnose_logs(logs)
        list(render_diagnosis(found))
        json.dumps(encode_diagnosis(found, logs), allow_nan=False)

    return read


def _scripts(_: Path) -> Read:
    from launcher.lint.formats import lint_json, lint_lines, render_sarif
    from preflight.script.analyze import analyze_script
    from preflight.script.lint import lint

    def read(data: bytes) -> None:
        text, *others = _texts(data)
        files = dict(part.partition("\n")[::2] for part in others)
        result = lint(text, "train.py", find=files.get)
        fault = [problem for problem in result.problems if "through a fault of the linter" in problem]
        assert not fault, fault
        lines = text.splitlines()
        lint_lines([result], lambda _: lines)
        json.dumps([lint_json([result]), render_sarif([result])], allow_nan=False)
        analyze_script(text, "train.py", find=files.get)

    return read


def _claims(folder: Path) -> Read:
    from launcher.onhost.supervisor import gpu_claims as taken
    from launcher.onhost.supervisor import wait_tickets as tickets
    from launcher.onhost.supervisor.processes import read_boot_id, read_own_namespaces
    from preflight.probes import host

    path = folder / "gpulaunch-claim-GPU-1.x"
    host._CLAIMS_DIR = str(folder)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    taken.lock_claim(fd)  # a claim counts while its file is locked
    ticket, mine = tickets.make_ticket(str(folder), "mine", ["GPU-1"])

    here = (read_boot_id(), read_own_namespaces()[0])

    def read(data: bytes) -> None:
        for word, value in zip((b"@boot@", b"@pids@"), here, strict=True):
            data = data.replace(word, value.encode())  # a claim counts on its own machine only
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)
        json.dumps(host.list_gpu_claims(), allow_nan=False)
        taken.find_gpu_conflict(str(folder), "GPU-1", {})
        os.ftruncate(mine, 0)
        os.pwrite(mine, data, 0)
        [found] = tickets.live_tickets(str(folder))
        assert found.path == ticket
        json.dumps(found.name)

    return read


def _deep(_: Path) -> Read:
    from launcher import safe_json
    from launcher.report.deep import DeepReport, encode_deep, render_deep_report
    from launcher.report.preflight_page.deep_section import render_deep
    from preflight.checks.finding import encode_finding
    from preflight.checks.runner import check_deep
    from preflight.deep.measurements import DeepRun, RankDeep, add_reports

    def read(data: bytes) -> None:
        try:
            document = safe_json.loads(data)
        except ValueError:
            return
        parsed = document if isinstance(document, list) else [document]
        reports = [each for each in parsed if isinstance(each, dict)][:64]
        ranks = tuple(
            add_reports(RankDeep(rank, f"n{rank // 2}", rank % 2, rank % 2), reports[rank % 2 :])
            for rank in range(4)
        )
        run = DeepRun(ranks)
        findings = check_deep(run)
        crashed = [item.message for item in findings if "the check itself failed" in item.message]
        assert not crashed, crashed
        report = encode_deep(DeepReport.of(run, findings))
        json.dumps([report, [encode_finding(item) for item in findings]], allow_nan=False)

        list(render_deep(report))
        for each in (report, document if isinstance(document, dict) else {}):  # a file holds the latter
            list(render_deep_report(each))

    return read


def _monitor(_: Path) -> Read:
    from launcher import safe_json
    from launcher.top.monitor_answer import parse_answer

    def read(data: bytes) -> None:
        try:
            document = safe_json.loads(data)
        except ValueError:
            return
        answer = parse_answer("titan", document if isinstance(document, dict) else {})
        for parsed in answer.runs.values():
            parsed.tail.encode()

    return read


def _known_hosts(folder: Path) -> Read:
    from launcher.transports.ssh import known_hosts

    path = folder / "known_hosts"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        known_hosts._parse.cache_clear()
        for address, port in (("titan", 22), ("10.0.0.7", 2222), ("::1", 22)):
            known = known_hosts.find_keys([str(path)], address, port)
            assert all(key.blob is not None for key in known.keys)

    return read


def _texts(data: bytes) -> list[str]:
    """Several files in one input, parted by lines `#file NAME`."""
    return data.decode("utf-8", "replace").split("\n#file ")


DOORS = {
    door.name: door
    for door in (
        Door("facts", _facts, ("preflight/recordings/titan-rtx.json",), is_json=True),
        Door("frames", _frames),
        Door("records", _records, is_json=True),
        Door("answers", _answers, is_json=True),
        Door("run_dirs", _run_dirs, is_json=True),
        Door("yaml", _yaml),
        Door("smi", _smi, ("preflight/smi_reports/*",)),
        Door("logs", _logs, ("preflight/logs/recorded/*.txt",)),
        Door("scripts", _scripts, ("preflight/scripts/*/*.py",)),
        Door("claims", _claims, is_json=True),
        Door("deep", _deep, is_json=True),
        Door("monitor", _monitor, is_json=True),
        Door("known_hosts", _known_hosts),
        Door("words", _words),
        Door("commands", _commands),
    )
}


def opened(name: str) -> tuple[Door, Read]:
    """Return a door and its reader, which has a folder of its own to write in."""
    door = DOORS[name]
    return door, door.open(Path(tempfile.mkdtemp(prefix="gpulaunch-fuzz-")))


def passes(read: Read, data: bytes) -> None:
    """Let one input in. Returns for what is read and for what is refused in the project's own way."""
    from preflight.errors import GpulaunchError

    try:
        read(data)
    except GpulaunchError as refused:
        parsed = refused.message
    else:
        return
    assert parsed, "a refusal without a reason"
