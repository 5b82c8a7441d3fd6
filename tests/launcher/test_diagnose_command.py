"""`gpulaunch diagnose` and `explain` of its codes, as a user types them."""

import bz2
import gzip
import io
import json
import lzma
import random
import re
from pathlib import Path

import pytest

from launcher.commands.explain import wrap_paragraphs
from launcher.errors import BadInput
from launcher.rundir.log_files import STDIN, read_log
from preflight.diagnosis.diagnose import diagnose_logs
from preflight.diagnosis.explain import list_signature_codes
from preflight.diagnosis.lines import Log, read_logs
from tests.launcher.kept_runs import OOM, RUN, a_run, gpulaunch


@pytest.mark.parametrize("word", ["paper", "DIRECTORY"])
@pytest.mark.parametrize(
    ("nodes", "python"),
    [
        ('[{"host": "titan", "python": "~/venv/bin/python", "cwd": "", "files": {}}]', "~/venv/bin/python"),
        ('[{"host": "titan", "python": "~/p", "cwd": "", "files": 3}, 4]', "python"),
        ("4", "python"),
    ],
)
def test_a_command_for_a_kept_run_names_the_interpreter_of_its_plan(
    tmp_path: Path, word: str, nodes: str, python: str
) -> None:
    run = a_run(tmp_path) / "paper-20260301-100000-ab12cd"
    (run / "titan" / "rank-3.log").write_text("ModuleNotFoundError: No module named 'einops'\n")
    (run / "plan.json").write_text(f'{{"nodes": {nodes}}}')
    printed = gpulaunch("diagnose", word if word == "paper" else str(run), "--logs", str(tmp_path)).output
    assert f"  type on titan: {python} -m pip install einops\n" in printed


def test_without_a_kept_run_the_last_one_is_not_called_a_log(tmp_path: Path) -> None:
    error = gpulaunch("diagnose", "--logs", str(tmp_path)).exception
    assert isinstance(error, BadInput)
    assert str(error) == f"no run is kept in {tmp_path}"


def test_the_id_of_a_slurm_job_leads_to_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slurm-17_3.out").touch()
    error = gpulaunch("diagnose", "17_3").exception
    assert isinstance(error, BadInput)
    assert error.fix.endswith("; slurm-17_3.out is the output of that job")


def test_a_log_is_diagnosed_on_one_screen(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(OOM)
    printed = gpulaunch("diagnose", str(log)).output.splitlines()
    assert printed[0].startswith("cuda-oom (S20, certain)")
    assert printed[1:3] == ["  line 3: RuntimeError: CUDA out of memory. Tried", "  in your code: train.py:7"]
    assert any(line.startswith("  fix: ") for line in printed)


@pytest.mark.parametrize("block", [4099, 1 << 20])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_of_a_log_that_is_too_long_the_lines_keep_their_numbers(block: int, encoding: str) -> None:
    text = "".join(f"step {n}: {'-' * (n % 9)}\n" for n in range(1, 20_000)) + OOM
    lines = text.split("\n")
    log = read_log(io.BytesIO(text.encode(encoding)), Log("", "train.log"), block=block)
    assert not log.text
    assert len(log.kept) < 2000
    evidence = diagnose_logs([log]).causes[0].evidence[0]
    assert lines[evidence.line - 1] == evidence.text == OOM.splitlines()[-1]
    for line in read_logs((log,)):
        assert lines[line.number - 1].rstrip() == line.text
    assert read_log(io.BytesIO(OOM.encode(encoding)), Log("")).text == OOM


@pytest.mark.parametrize(
    ("content", "wrong", "fix"),
    [
        (b"", "train.log: no line of text, so nothing is known of the run", "name a log with lines"),
        (b" \n\x00\x00\n", "train.log: no line of text", "name a log with lines"),
        (gzip.compress(OOM.encode()), "train.log is compressed", "zcat train.log | gpulaunch diagnose -"),
        (bz2.compress(OOM.encode()), "train.log is compressed", "bzcat train.log | gpulaunch diagnose -"),
        (lzma.compress(OOM.encode()), "train.log is compressed", "xzcat train.log | gpulaunch diagnose -"),
        (
            random.Random(1).randbytes(300_000),
            "train.log is a binary file: 54% of its first characters cannot",
            "name a log file",
        ),
    ],
)
def test_what_is_no_log_is_an_error_and_no_run_without_failure(
    content: bytes, wrong: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_bytes(content)
    error = gpulaunch("diagnose", "train.log").exception
    assert isinstance(error, BadInput)
    assert str(error).startswith(wrong)
    assert error.fix == fix


@pytest.mark.parametrize("words", [["."], ["core.log", "train.log", "train.py", "old.log"]])
def test_of_several_files_those_that_are_no_text_are_left_out_and_named(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `gpulaunch diagnose *` in a project names them."""
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text(OOM, encoding="utf-8")
    Path("train.py").write_text("import torch\n", encoding="utf-8")
    Path("core.log").write_bytes(random.Random(1).randbytes(3000))
    Path("old.log").write_bytes(gzip.compress(b"RuntimeError: old\n"))
    shown = gpulaunch("diagnose", *words)
    assert shown.stdout.startswith("cuda-oom (S20, certain)")
    left_out = [line for line in shown.stderr.splitlines() if line.startswith("left out: ")]
    assert "left out: core.log is a binary file" in left_out[0]
    assert ["left out: train.py is a script and no log"] * (len(words) > 1) == left_out[1:-1]
    assert left_out[-1] == "left out: old.log is compressed"
    assert "core.log is a binary file" in str(gpulaunch("diagnose", "core.log", "old.log").exception)


def test_compressed_standard_input_names_no_file() -> None:
    with pytest.raises(BadInput) as caught:
        read_log(io.BytesIO(gzip.compress(OOM.encode())), Log("", STDIN))
    assert caught.value.fix == "zcat FILE | gpulaunch diagnose -"


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 5000 + OOM.encode(),
        "épreuve à l'été, déjà évalué: 精度检查完成\n".encode("latin-1", "ignore") * 20 + OOM.encode(),
        "训练 loss 0.31 步 epoch 3 学习率 1e-4\n".encode("gbk") * 40 + OOM.encode(),
        b"\x1b[2K\x1b[1A\r 10%\x08\x08" * 300 + OOM.encode(),
        b"\x00" * 30 + b"ok\n",
    ],
)
def test_logs_with_holes_other_encodings_or_escapes_are_read(content: bytes) -> None:
    assert read_log(io.BytesIO(content), Log("", "train.log")).text.strip()


def test_an_empty_log_beside_others_of_a_run_is_no_error(tmp_path: Path) -> None:
    run = a_run(tmp_path) / "paper-20260301-100000-ab12cd"
    (run / "titan" / "rank-0.log").write_text("")
    assert "cuda-oom" in gpulaunch("diagnose", str(run)).output


def test_the_json_document_has_the_documented_keys() -> None:
    document = json.loads(gpulaunch("diagnose", "-", "--json", stdin=OOM).output)
    assert (document["schema"], document["verdict"], document["sources"]) == (
        "gpulaunch.diagnosis/1",
        "cuda-oom",
        ["stdin"],
    )
    cause = document["causes"][0]
    assert (cause["code"], cause["class"], cause["confidence"], cause["location"]) == (
        "S20",
        "cuda-oom",
        "certain",
        "train.py:7",
    )
    assert (cause["evidence"][0]["source"], cause["evidence"][0]["line"]) == ("stdin", 3)
    assert cause["fix"]
    assert document["warnings"] == []


def test_a_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    runs = a_run(tmp_path)
    document = json.loads(gpulaunch("diagnose", "paper-2026", "--logs", str(runs), "--json").output)
    cause = document["causes"][0]
    assert (cause["class"], cause["rank"], cause["host"]) == ("cuda-oom", 3, "titan")
    assert cause["evidence"][0]["source"] == "titan/rank-3.log"


def test_a_run_is_started_again_by_gpulaunch_and_what_another_log_ran_by_python(tmp_path: Path) -> None:
    runs = a_run(tmp_path)
    log = runs / "paper-20260301-100000-ab12cd" / "titan" / "rank-3.log"
    log.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    of_run = json.loads(gpulaunch("diagnose", "paper-2026", "--logs", str(runs), "--json").output)
    of_file = json.loads(gpulaunch("diagnose", str(log), "--json").output)
    assert of_run["causes"][0]["command"] == "gpulaunch run ... --set env.CUDA_LAUNCH_BLOCKING=1"
    assert of_file["causes"][0]["command"] == "export CUDA_LAUNCH_BLOCKING=1"


def test_the_name_of_runs_is_the_newest_of_them(tmp_path: Path) -> None:
    runs = a_run(a_run(tmp_path), newest := "paper-20260302-100000-ab12ce")
    printed = gpulaunch("diagnose", "paper", "--logs", str(runs)).output.splitlines()
    assert printed[0] == f"paper is {newest}"
    assert printed[1].startswith("cuda-oom")


@pytest.mark.parametrize("word", ["paper-2026", "other", "no/such/file.log"])
def test_what_names_no_log_or_several_is_refused(tmp_path: Path, word: str) -> None:
    runs = a_run(a_run(tmp_path), "paper-20260302-100000-ab12ce")
    refused = gpulaunch("diagnose", word, "--logs", str(runs)).exception
    assert isinstance(refused, BadInput)
    assert refused.fix.endswith(", or paper for the newest") == (word == "paper-2026")


@pytest.mark.parametrize("end", [{}, {"why": "SIGTERM", "verdict": "interrupted"}, {"verdict": "detached"}])
def test_a_run_without_logs_here_is_fetched_where_it_has_any(tmp_path: Path, end: dict[str, str]) -> None:
    run = tmp_path / RUN
    run.mkdir()
    (run / "plan.json").write_text("{}")
    (run / "outcome.json").write_text(json.dumps({"logs_incomplete": "", **end} if end else end))
    refused = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).exception
    assert isinstance(refused, BadInput)
    whole, why = end.get("verdict") == "interrupted", f"; {end['why']}" if "why" in end else ""
    said = "it ended before a rank of it had written a line" if whole else "no logs of it are kept locally"
    assert refused.message == f"{RUN}: {said}{why}"
    shown = f"report {RUN} shows its course" if whole else f"fetch {RUN} brings them"
    assert refused.fix == f"gpulaunch {shown}"


def test_a_run_that_was_stopped_before_its_first_line_is_not_fetched_again(tmp_path: Path) -> None:
    host = tmp_path / RUN / "titan"
    host.mkdir(parents=True)
    (tmp_path / RUN / "plan.json").write_text("{}")
    (host / "rank-0.log").touch()
    end = {"ranks": {"0": -15}, "why": "stopped by ana@laptop", "cause": "request", "launcher_code": None}
    state = {"phase": "ended", "exit": end, "started": 1.0}
    (host / "state.json").write_text(json.dumps(state))
    refused = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).exception
    assert isinstance(refused, BadInput)
    assert refused.message == f"{RUN}: it ended before a rank of it had written a line; stopped by ana@laptop"
    assert refused.fix == f"gpulaunch report {RUN} shows its course"


def test_the_run_that_is_offered_in_place_of_an_unknown_one_is_the_newest(tmp_path: Path) -> None:
    runs = a_run(a_run(tmp_path, "a-20260302-100000-ab12ce"))
    error = gpulaunch("diagnose", "other", "--logs", str(runs)).exception
    assert isinstance(error, BadInput)
    assert "the latest local run is a-20260302-100000-ab12ce, gpulaunch fetch RUN brings" in error.fix


def test_a_healthy_log_has_no_failure() -> None:
    assert gpulaunch("diagnose", "-", stdin="step 1 loss 2.0\n").output == "no failure found\n"


def test_a_log_cannot_steer_the_terminal() -> None:
    printed = gpulaunch("diagnose", "-", stdin="RuntimeError: CUDA out of memory \x9b31m \u202e\n").output
    assert "\x9b" not in printed
    assert "\u202e" not in printed


def test_a_narrow_terminal_breaks_an_explanation_between_words() -> None:
    lines = [
        "A001: One line that is long enough.",
        "(info)",
        "",
        "Some words here",
        "and there.",
        "Fix: this",
    ]
    assert list(wrap_paragraphs(lines, 40)) == lines
    assert list(wrap_paragraphs(lines, 30)) == [
        *("A001: One line that is long", "enough.", "(info)", "", "Some words here and there.", "Fix: this")
    ]


def test_a_class_of_causes_is_explained_by_its_codes() -> None:
    shown = gpulaunch("explain", "CUDA-OOM", "shm", "fp16-unscale", "S20").output
    starts = [line.partition(": ")[0] for line in shown.splitlines() if re.match(r"S\d+: ", line)]
    assert starts[-1] == "S20"
    assert {"S20", "S60"} <= set(starts[:-1])
    assert "(fp16-unscale, " in shown


def test_every_code_can_be_explained() -> None:
    for code in list_signature_codes():
        text = gpulaunch("explain", code).output
        assert text.startswith(f"{code}: ")
        assert "\nFix: " in text or code.startswith("W")


def test_a_run_that_logs_no_more_steps_is_looked_at_with_a_command_of_ours() -> None:
    assert "Fix: gpulaunch stacks RUN " in gpulaunch("explain", "S24").output
