"""The script rules on scripts: what `# expect:` marks is found there, and nothing else."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.script.lint import lint, lint_for
from preflight.script.rules import all_rules
from preflight.script.rules.all_rules import explain_rule, list_rule_codes
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.target import RankTarget, differ_by_gpu
from tests.preflight.script_cases import BAD, GOOD, HERE, judged, read, some_of_each_rule
from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts


def expected(files: tuple[str, ...]) -> set[tuple[str, int, str, str]]:
    found = set()
    for name in files:
        for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1):
            match = re.search(r"# expect: (.*)", line)
            for word in match[1].split(", ") if match else ():
                code, level = word.split()
                found.add((Path(name).name, number, code, level))
    return found


@pytest.mark.parametrize(
    "path", BAD, ids=lambda path: path.stem if path.parent == HERE / "bad" else path.parent.name
)
def test_each_planted_fault_is_found_at_its_line(path: Path) -> None:
    result = judged(path)
    given = {(Path(f.place.path).name, f.place.line, f.code, f.level.value) for f in result.findings}
    wanted = expected(result.files)
    assert wanted, "a bad script says what is wrong with it"
    assert wanted <= given, f"missed; told {sorted(given)}"
    extra = {item for item in given - wanted if item[3] != "info"}
    assert not extra
    assert not result.problems


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_nothing_is_said_against_a_good_script(path: Path) -> None:
    result = judged(path)
    assert [f for f in result.findings if f.level is Level.ERROR] == []
    if path.stem != "accepted_pure_fp16":
        assert [f for f in result.findings if f.level is Level.WARNING] == []
    assert not result.problems


def test_scripts_are_reported_word_for_word_as_last_read_by_eye() -> None:
    """`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`."""
    assert changed_transcripts("scripts") == {}, WRITES_ANEW


def test_every_rule_has_a_bad_script() -> None:
    marked = {code for path in (HERE / "bad").rglob("*.py") for _, _, code, _ in expected((str(path),))}
    assert set(list_rule_codes()) - {"P123"} <= marked


def test_a_rule_has_a_code_of_its_own_and_a_text() -> None:
    def judge(*_: object) -> Iterator[RuleHit]:
        """A fault."""
        yield from ()

    with pytest.raises(TypeError, match="P101 is taken"):
        rule("P101", "train")(judge)
    judge.__doc__ = None
    with pytest.raises(TypeError, match="P999: a rule needs a docstring"):
        rule("P999", "train")(judge)


def test_every_rule_is_explained() -> None:
    for code in list_rule_codes():
        text = explain_rule(code)
        assert text.startswith(f"{code}: ")
        assert "Source:" in text
        assert "\nFix: " in text


def test_both_switches_off_is_explained() -> None:
    text = "from transformers import TrainingArguments\nTrainingArguments('o', fp16=False, bf16=False)\n"
    assert [(f.code, f.level) for f in lint(text, "t.py").findings] == [("P123", Level.INFO)]


def test_what_depends_on_unknown_hardware_is_no_error() -> None:
    text = "from accelerate import Accelerator\nAccelerator(mixed_precision='bf16')\n"
    guessed = [(f.code, f.level) for f in lint(text, "t.py").findings]
    assert ("P131", Level.INFO) in guessed  # right on most GPUs of today
    known = [(f.code, f.level) for f in lint(text, "t.py", [RankTarget(capability=(7, 5))]).findings]
    assert ("P131", Level.ERROR) in known
    assert not any(f.code == "P131" for f in lint(text, "t.py", [RankTarget(capability=(8, 0))]).findings)


def test_one_process_needs_no_placement() -> None:
    for name in ("fixed_devices", "visible_devices", "data_parallel", "no_device_for_ranks", "fixed_map"):
        path = HERE / "bad" / f"{name}.py"
        result = lint(path.read_text(), str(path), [RankTarget(capability=(8, 0), processes=1)])
        assert not [f for f in result.findings if f.level is not Level.INFO], name


@pytest.mark.parametrize(
    "text", ["print 'python 2'\n", "def f(:\n", "\x00", "while True\n", "f'{'\n", "print f'{'a'}'\n"]
)
def test_what_is_not_python_is_a_problem_and_not_a_pass(text: str) -> None:
    result = lint(text, "t.py")
    assert result.problems
    assert [(f.code, f.level) for f in result.findings] == [("P100", Level.ERROR)] or "\x00" in text
    assert all(f.message.startswith("not Python: ") for f in result.findings)  # "P100: ..." could be the GPU


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ("for x in (): pass\nelse:\n    break", 3, "'break' outside loop"),
        ("for x in ():\n    class C:\n        continue", 3, "'continue' outside loop"),
        ("while f():\n    def g():\n        if x: break", 3, "'break' outside loop"),
        ("try: pass\nexcept E:\n    return 1", 3, "'return' outside function"),
        ("def f():\n    class C:\n        return 1", 3, "'return' outside function"),
        pytest.param(
            *(
                "for x in ():\n    try: pass\n    except* E:\n        break",
                4,
                "'break' outside loop, as an except* block is",
            ),
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="except* came with Python 3.11"),
        ),
    ],
)
def test_what_only_the_compiler_refuses_is_not_python(lines: str, line: int, said: str) -> None:
    (found,) = lint(lines, "t.py").findings
    assert (found.code, found.level, found.place.line) == ("P100", Level.ERROR, line)
    assert found.message == f"not Python: {said}"
    with pytest.raises(SyntaxError, match=said.partition(" ")[0]):
        compile(lines, "t.py", "exec")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("out/run.log", "gpulaunch diagnose out/run.log judges a log"),
        ("slurm-7.out", "gpulaunch diagnose slurm-7.out judges a log"),
        ("job.sh", "lint the script that it starts"),
        ("train.py", "repair the line, or that before it"),
    ],
)
def test_what_is_no_script_names_what_reads_it(name: str, fix: str) -> None:
    (found,) = lint("epoch 1: loss 2.5\n", name).findings
    assert (found.code, found.fix) == ("P100", fix)


def test_statements_that_leave_what_they_are_in_are_python() -> None:
    text = (
        "def f():\n"
        "    for x in ():\n"
        "        try: break\n"
        "        except E: continue\n"
        "        else:\n"
        "            while x: return\n"
        "            else: break\n"
        "        match x:\n"
        "            case 1: break\n"
    )
    assert not lint(text, "t.py").problems
    compile(text, "t.py", "exec")


@pytest.mark.parametrize(
    "line",
    [
        """name = f"{args["name"]} of {", ".join(args)}\"""",
        "name = f'{'a' + f'{args['x']:>{args['w']}}'} {{}}'",
        """name = f"{\n    args  # all\n}\"""",
        "def last[T: (int, str)](items: list[T]) -> T: return items[-1]",
        "class Store[K, V](dict): pass",
        "type Pair[T] = tuple[T, T]",
    ],
)
def test_what_a_newer_python_reads_is_no_error_and_the_rest_is_judged(line: str) -> None:
    text = f"import torch\n{line}\nmodel = torch.nn.Linear(4, 4).to('cuda:0')\n"
    result = lint(text, "t.py", [RankTarget(capability=(8, 0), processes=2)])
    assert [(f.code, f.level) for f in result.findings if f.level is not Level.INFO] == [
        ("D201", Level.ERROR)
    ]
    assert {f.code for f in result.findings} <= {"D201", "P100"}  # P100 where this Python is too old
    assert result.findings[-1].place.line == text.count("\n")
    assert not result.problems


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeffimport torch\r\nx = torch.float16\r\n",
        "# -*- coding: latin-1 -*-\ns = 'é'\n",
        "def f():\n    return f()\nf()\n",
        "class A(A2 := object): pass\nA().x.y.z[0](*a, **k)\n",
        "match 1:\n    case 1: pass\n    case _: pass\n",
        "async def f():\n    async with x as y:\n        await y\n    async for z in w: yield z\n",
        "x = [i for i in range(3) for j in i if j]\n(lambda *a, **k: a)(1, b=2)\n",
        "try:\n    raise ValueError\nexcept* ValueError:\n    pass\n",
        "while True:\n    if x: break\n    continue\nelse:\n    y = 1\n",
        "import a.b.c as d, os\nfrom . import e\nfrom .. import f\nfrom g import *\n",
        "global_x = 1\ndef f():\n    global global_x\n    global_x = 2\nf()\ndel global_x\n",
        "class A:\n    pass\na = A()\na.self = 1\na.ref = 2\na.kind = 3\nsetattr(a, 'self', 5)\n",
        "a, *b = 1, 2, 3\n(c, d), e = (1, 2), 3\na[0], b.c = 1, 2\na += 1; a[0] += 1\n",
        "class A: pass\ndef f(a):\n if a:\n  A.b = A()\n  raise ValueError\n for x in A.b: x\nf(g())",
    ],
)
def test_odd_scripts_are_read_without_a_crash(text: str) -> None:
    result = lint(text, "t.py")
    assert (result.findings, result.problems) == ((), ())


def test_a_script_is_never_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lint(f"open({str(mark)!r}, 'w').write('x')\nimport os\nos.system('touch {mark}')\n", "t.py")
    assert not mark.exists()


def test_a_script_with_too_many_paths_says_so() -> None:
    lines = ["def f(n):", *(f"    if n > {i}: n = g{i}(n)" for i in range(60)), "    return n"]
    calls = [f"def g{i}(n):\n    return " + " + ".join(f"f{j}(n)" for j in range(3)) for i in range(60)]
    text = "\n".join([*lines, *calls, *(f"def f{j}(n): return f(n)" for j in range(3)), "f(x)"])
    result = lint(text, "t.py")
    assert result.findings == ()


GPU_ASKED = re.compile("get_device_capability|is_bf16_supported|get_device_properties")
TWO_READINGS = [*some_of_each_rule(), *(path for path in GOOD if GPU_ASKED.search(path.read_text("utf-8")))]


@pytest.mark.parametrize("path", TWO_READINGS, ids=lambda path: path.relative_to(HERE).as_posix())
def test_one_reading_for_several_gpus_finds_what_a_reading_for_each_finds(path: Path) -> None:
    """A script that asks nothing of its GPU is read once; one that does, for each kind."""
    old, new = (RankTarget(capability=item, processes=4, args=()) for item in ((7, 5), (8, 0)))

    def found(*targets: RankTarget) -> set[tuple[str, str]]:
        items = lint_for(read(str(path)) or "", str(path), targets, certain=True, find=read).findings
        return {(item.code, str(item.place)) for item in items if not item.part_of and item.code != "P120"}

    first, second = found(old), found(new)
    assert found(old, new) == first | second
    if first != second:  # otherwise the order has nothing to decide
        assert found(new, old) == first | second


def test_every_module_with_a_rule_is_in_the_list_of_all() -> None:
    with_rules = {
        path.stem for path in Path(all_rules.__file__).parent.glob("*.py") if "\n@rule(" in path.read_text()
    }
    assert with_rules == {module.__name__.rpartition(".")[2] for module in all_rules.MODULES}


def test_ranks_differ_by_their_gpu_where_both_have_one() -> None:
    old, new, none = (RankTarget(capability=each) for each in ((7, 5), (8, 0), None))
    assert differ_by_gpu(old, new)
    assert not differ_by_gpu(old, none)
    assert not differ_by_gpu(none, new)
