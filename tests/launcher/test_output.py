"""All text leaves through one door, and no name, log or answer of a host steers the terminal through it."""

import io
import json
import os
import pty
import random
import re
import select
import sys
import termios
import unicodedata
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import cli
from launcher.cleanup.clean import CleanResult, KillResult
from launcher.cleanup.render import render_result
from launcher.commands import _remove, _run_options, fetch, logs, prune, ps, stacks, stop
from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionLost, GpulaunchError
from launcher.runs.access import RunAccess
from launcher.runs.fetch import FetchResult
from launcher.runs.logs import LogsResult
from launcher.runs.merged_runs import merge_node_runs
from launcher.runs.remote_run import RemoteRun
from launcher.runs.search import SearchResult
from launcher.terminal.cell_width import paint_line
from launcher.terminal.colours import split_spans
from launcher.terminal.output import ask_secret, echo, echo_json
from launcher.terminal.screen import Screen
from preflight.errors import MalformedFacts
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode
from tests.launcher.found_runs import A, B, node_run, over
from tests.preflight.golden_cases import host
from tests.preflight.scenes import Scene, dead_launch

HOSTILE = (
    "\x1b[2J\x1b[1;1H\x1b[8m\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1b]52;c;cHdu\x07"
    "\x1bP$qm\x1b\\\x1b]0;open"
    "\x9b2J\x9d0;t\x9c\u202egnp\u2066\u200b\u200dx\ufeff\r\x08\x00\x0b\x0c\x85\u2028\u2029"
    "\n==> FORGED\n\ud800\x7f\U000e0041\x1bc"
)
SGR = re.compile(r"\x1b\[[0-9;]*m")
BIDI = ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")


class Terminal(io.StringIO):
    """A stream that says it is a terminal that shows colours."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def assert_harmless(text: str, *, colours: bool) -> None:
    """Assert that a stream got lines, colours where wanted, and nothing else that a terminal obeys."""
    rest = SGR.sub("", text) if colours else text
    left = {c for c in rest if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    left |= {c for c in rest if unicodedata.bidirectional(c) in BIDI or c in "\u200b\u2060\ufeff\U000e0041"}
    assert left <= {"\n"}
    assert not re.search(r"^==> FORGED", rest, re.MULTILINE)
    for codes in SGR.findall(text):
        assert not {"8", "5", "6"} & set(codes[2:-1].split(";")[:1])


@given(st.lists(st.tuples(st.sampled_from(["", "31", "1;31", HOSTILE, "m"]), st.text())), st.booleans())
def test_a_painted_line_is_one_line_that_steers_nothing(spans: list[tuple[str, str]], colour: bool) -> None:  # noqa: FBT001
    line = paint_line([*spans, ("", HOSTILE)], colour=colour)
    assert "\n" not in line
    assert_harmless(line, colours=colour)


@given(st.text() | st.text(alphabet="\x1b[]0123456789;m:ab\t\x07") | st.binary())
def test_of_a_log_only_colours_pass(line: str | bytes) -> None:
    assert_harmless(paint_line(split_spans(line), colour=True), colours=True)
    assert_harmless(paint_line(split_spans(line), colour=False), colours=False)


@pytest.mark.parametrize(
    ("line", "shown_as"),
    [
        ("\x1b[31mred\x1b[0m plain", "\x1b[31mred\x1b[0m plain"),
        ("\x1b[1m\x1b[38;5;208mx\x1b[39my\x1b[22mz", "\x1b[1;38;5;208mx\x1b[0m\x1b[1my\x1b[0mz"),
        ("\x1b[48;2;1;2;300mx\x1b[38;5my", "xy"),
        ("\x1b[31mnever ended", "\x1b[31mnever ended\x1b[0m"),
        ("\x1b[8;5;31mx", "\x1b[31mx\x1b[0m"),
        ("\x1b[2Jx\x1b[K\x1b[9;9H", "x"),
        ("a\tb", "a       b"),
        ("\x1b[31mab\x1b[0mc\td", "\x1b[31mab\x1b[0mc     d"),
        ("数\t|", "数      |"),
    ],
)
def test_a_scripts_colours_pass_to_the_end_of_the_line_and_tabs_are_columns(line: str, shown_as: str) -> None:
    assert paint_line(split_spans(line), colour=True) == shown_as
    assert paint_line(split_spans(line), colour=False) == SGR.sub("", shown_as)


@pytest.mark.parametrize("colour", [True, False])
def test_a_run_shows_the_colours_of_its_script_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
    colour: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal() if colour else io.StringIO()
    Screen(stream).output("a", "launcher.log", b"\x1b[31mloss\x1b[0m\t0.5\n", 0.0)
    text = "[a] \x1b[31mloss\x1b[0m    0.5\n"
    assert SGR.sub("", stream.getvalue()) == SGR.sub("", text)
    assert stream.getvalue().endswith(text.removeprefix("[a] ")) is colour
    assert ("\x1b" in stream.getvalue()) is colour


def test_no_color_takes_the_scripts_colours_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).output("a", "launcher.log", b"\x1b[31mred\n", 0.0)
    assert stream.getvalue() == "[a] red\n"


def test_documents_are_exact_and_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({HOSTILE: [HOSTILE]})
    out = capsys.readouterr().out
    assert json.loads(out) == {HOSTILE: [HOSTILE]}
    assert_harmless(out, colours=False)


def test_a_full_disk_below_standard_error_costs_notes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        echo("a note", err=True)
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(OSError, match="No space left"):
            echo("a result")
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # what is buffered needs a place at the end


def test_a_question_that_a_host_words_is_one_safe_line(monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []

    def answer(prompt: str) -> str:
        questions.append(prompt)
        return "secret"

    monkeypatch.setattr("getpass.getpass", answer)
    assert ask_secret(f"u@h: {HOSTILE}Password: ") == "secret"
    assert_harmless(questions[0], colours=False)
    assert questions[0].endswith("Password: ")


# Commands.


def hostile(value: Any) -> Any:
    """Return plain JSON types with every string of them made hostile."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, list | tuple):
        return [hostile(item) for item in value]
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    return value


def hostile_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a host's answer, every string hostile that is no word of the format."""
    for name, value in facts.items():
        bad = hostile(value)
        try:
            decode(HostFacts, {**facts, name: bad})
        except MalformedFacts:
            continue
        facts[name] = bad
    assert HOSTILE in facts["host"]
    return facts


def answering(folder: Path, facts: dict[str, Any]) -> None:
    """Write a hosts.yaml whose host's interpreter gives this answer to whatever it is asked."""
    document = json.dumps(facts).encode()
    (folder / "answer").write_bytes(b"\nGPULAUNCH-FACTS-1 %d\n" % len(document) + document)
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat {folder}/answer\ncat > /dev/null\n")
    python.chmod(0o755)
    (folder / "hosts.yaml").write_text(f"hosts:\n  localhost: {{python: {python}}}\n")


def on_terminal(monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[str, str]:
    """Return what a command line prints into a terminal, and into pipes."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    texts = []
    for stream in (Terminal(), io.StringIO()):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            cli.run_command_line(argv)
        texts.append(stream.getvalue())
    return texts[0], texts[1]


def assert_safe(texts: tuple[str, str]) -> None:
    terminal, pipe = texts
    assert_harmless(terminal, colours=True)
    assert_harmless(pipe, colours=False)
    emulator = pyte.HistoryScreen(200, 50, history=5000)
    titles: list[str] = []
    emulator.set_title = titles.append
    pyte.Stream(emulator).feed("FIRST\r\n" + terminal.replace("\n", "\r\n"))
    history = [*emulator.history.top, *(emulator.buffer[row] for row in range(emulator.lines))]
    rows = ["".join(line[column].data for column in range(200)).rstrip() for line in history]
    assert rows[0] == "FIRST"  # nothing was erased or written over
    assert "FORGED" in pipe  # the attack did come through as text
    assert titles == []


def scene() -> dict[str, Any]:
    """Return the facts of a host with leftovers of a dead run."""
    scene = Scene(random.Random(1))
    dead_launch(scene)
    facts: dict[str, Any] = encode(scene.facts())
    for process in facts["processes"]["processes"]:
        if process["pid"] != 1:  # what adopts orphans is known by its name
            process["argv"] = ["\x1b[2J\x1b]0;x\x07\r\u202e\n==> FORGED", *process["argv"]]
    return facts


@pytest.mark.parametrize("argv", [("preflight", "-v"), ("preflight",)])
def test_the_facts_of_a_host_steer_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    answering(tmp_path, hostile_facts(encode(host())))
    assert_safe(on_terminal(monkeypatch, *argv, "localhost"))


def test_the_processes_of_a_host_do_not_paint_over_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answering(tmp_path, scene())
    texts = on_terminal(monkeypatch, "clean-zombies", "--dry-run", "localhost")
    assert_safe(texts)
    assert "end?" in texts[1]


def test_what_was_ended_steers_nothing() -> None:
    done = CleanResult(f"a{HOSTILE}", (KillResult(7, 1, HOSTILE, (HOSTILE,)),), (), (), (), HOSTILE)
    for line in render_result(done):
        assert_harmless(paint_line(line, colour=False), colours=False)


def test_findings_belong_to_the_host_that_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answering(tmp_path, encode(host({"gpus.0.recovery_action": "gpu_reset"}, "another")))
    terminal, _ = on_terminal(monkeypatch, "preflight", "-v", "localhost")
    assert "localhost" in terminal
    assert "another" not in terminal
    document = json.loads(on_terminal(monkeypatch, "preflight", "--json", "localhost")[1])
    assert {name for finding in document["findings"] for name in finding["hosts"]} == {"localhost"}


def runs() -> tuple[RemoteRun, ...]:
    end = {"ranks": {"0": 3}, "why": HOSTILE, "remaining_pids": [7]}
    answers = [
        (A, over("r1", why=HOSTILE, remaining_pids=[7])),
        (B, node_run("r1", 1, tail=f"step 3/4 loss: 0.5{HOSTILE}")),
        (A, node_run("r2", state={"phase": "ended", "exit": end, "ended": 5.0}, alive=False)),
    ]
    for _, run in answers:
        run["state"]["run_dir"] = HOSTILE
    source = ((entry, {"runs": [run], "t": 5.0, "user": HOSTILE}, 5.0) for entry, run in answers)
    return merge_node_runs(source).runs


def errors() -> dict[str, Any]:
    return {f"c{HOSTILE}": ConnectionLost("c", HOSTILE), "d": ConnectionLost("d", HOSTILE, HOSTILE)}


class Told(GpulaunchError):
    """An error in a host's words."""


def test_what_hosts_tell_of_runs_steers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = runs()[0]
    assert run.record is not None
    to = RunAccess(run.record.plan, (A, B), (), lambda _: pytest.fail("nothing is asked"))
    found = SearchResult(runs(), errors(), {HOSTILE: (HOSTILE,)}, {HOSTILE: (HOSTILE,)})
    ended = {"state": {"phase": "ended", "exit": {"ranks": {f"0{HOSTILE}": HOSTILE}}}}
    for module in (ps, prune):
        monkeypatch.setattr(module, "search_all", lambda *_, **__: found)
    for module in (stop, stacks, _run_options):
        monkeypatch.setattr(module, "find_run", lambda *_, prefer="", **__: runs()[prefer == "exact"])
    for module in (stop, stacks, _run_options):
        monkeypatch.setattr(module, "open_run", lambda *_, **__: to)
    monkeypatch.setattr(_remove, "remove_run", lambda *_: [*errors().values()])
    monkeypatch.setattr(stop, "stop_run", lambda *_, **__: [ended, ConnectionLost("b", HOSTILE)])
    monkeypatch.setattr(fetch, "fetch_host", lambda *_, **__: FetchResult(1, 1, [HOSTILE]))
    monkeypatch.setattr(logs, "show_logs", lambda *_: LogsResult({f"a{HOSTILE}": HOSTILE}, {}, {}))
    for argv in (("ps", "-a"), ("rm", "r1", "-y"), ("stop", "r1"), ("fetch", "r1"), ("logs", "r1"),
                 ("prune", "-y", "--older-than", "1s")):  # fmt: skip
        assert_safe(on_terminal(monkeypatch, *argv))


def test_an_error_in_a_hosts_words_steers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Told(HOSTILE, f"do\n{HOSTILE}")

    monkeypatch.setattr(ps, "search_all", fail)
    assert_safe(on_terminal(monkeypatch, "ps"))
    assert_safe(on_terminal(monkeypatch, "ps", f"--{HOSTILE}".replace("=", "")))
    assert_safe(on_terminal(monkeypatch, HOSTILE))


def test_a_line_is_a_line_whatever_a_name_holds(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"{HostEntry('a').name}\nb: ended")
    assert capsys.readouterr().out == "a\\nb: ended\n"


HIDDEN = """
import threading
from launcher.terminal.output import ask_secret
try:  # Ctrl-C may come before start() returns
    threading.Thread(target=ask_secret, args=("Passphrase?",), daemon=True).start()
    threading.Event().wait()
except KeyboardInterrupt:
    pass
"""


def test_ctrl_c_at_a_hidden_question_leaves_a_terminal_that_shows_what_is_typed() -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", HIDDEN])
    before = termios.tcgetattr(terminal)
    assert before[3] & termios.ECHO
    screen = b""
    while b"Passphrase? " not in screen:
        screen += os.read(terminal, 100)
    assert not termios.tcgetattr(terminal)[3] & termios.ECHO
    os.write(terminal, b"sec\x03")
    while select.select([terminal], [], [], 20)[0]:
        try:
            part = os.read(terminal, 1000)
        except OSError:  # nobody has it open any more
            break
        screen += part
    os.waitpid(pid, 0)
    assert termios.tcgetattr(terminal)[3] & termios.ECHO
    os.close(terminal)
    assert b"Passphrase? \r\n" in screen
