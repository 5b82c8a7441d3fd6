"""What reading a script computes is what Python computes: each snippet is read, and run."""

import pytest

from preflight.script.analyze import analyze_script

KNOWN = r"""
p = {"a": "no", "b": "fp16"}.get("b")
p = {"a": "no"}.get("b", "bf16")
p = {"a": "no"}.get("a", "bf16")
p = {"a": "fp16"}["a"]
d = {"a": "no"}; d["b"] = "bf16"; p = d["b"]
d = {"a": "no"}; d.update({"a": "fp16"}); p = d["a"]
d = {"a": "no"}; d.update(a="bf16", b="fp16"); p = d["a"]
d = {"a": "no"}; d.update({"b": "bf16"}, c="fp16"); p = d["a"] if "b" in d else d["c"]
d = {"a": "no"}; p = d.setdefault("b", "fp16")
d = {"a": "no"}; d.setdefault("b", "fp16"); p = d["b"]
d = {"a": "no"}; d.setdefault("a", "fp16"); p = d["a"]
d = {"a": "no", "b": "bf16"}; d.pop("a"); p = d.get("a", "fp16")
d = {"a": "no", "b": "bf16"}; p = d.pop("b", "fp16")
d = {"a": "no", "b": "bf16"}; p = d.copy()["b"]
p = list({"a": "no", "b": "bf16"}.values())[1]
p = list({"no": 1, "bf16": 2}.keys())[1]
p = list({"no": 1, "bf16": 2}.items())[1][0]
p = {**{"a": "no"}, "a": "bf16"}["a"]
p = dict(a="fp16")["a"]
p = "{1}{0}".format("16", "fp")
p = "fp" + "16"
p = f"bf{16}"
p = f"{'fp'}{8 * 2}"
p = "BF16".lower()
p = " fp16 ".strip()
p = "x-bf16".split("-")[1]
p = "x-bf16".replace("x-", "")
p = "bf16" if 1 < 2 else "no"
p = "bf16" if 2 < 2 else "fp16"
p = "bf16" if 2 <= 2 else "fp16"
p = "bf16" if 3 > 2 else "fp16"
p = "bf16" if 2 >= 3 else "fp16"
p = "bf16" if 2 == 2 else "fp16"
p = "bf16" if 2 != 2 else "fp16"
p = "bf16" if 1 < 2 < 3 else "no"
p = "bf16" if 1 < 2 < 2 else "no"
p = "bf16" if "a" in ("a", "b") else "no"
p = "bf16" if "a" not in ("a", "b") else "no"
p = "bf16" if None is None else "no"
p = "bf16" if None is not None else "no"
p = "bf16" if not "" else "no"
p = "bf16" if "" or [] else "no"
p = "bf16" if "a" and 1 else "no"
p = "" or "fp16"
p = "fp16" and "bf16"
p = None or "no"
p = ("no", "fp16")[1]
p = ("no", "fp16", "bf16")[-1]
a, p = "no", "bf16"
(a, (b, p)) = ("no", ("fp16", "bf16"))
p = a = "fp16"
n = 4; n += 4; p = "bf16" if n == 8 else "no"
n = 4; n *= 2; p = "bf16" if n == 8 else "no"
n = 9; p = "bf16" if n // 2 == 4 else "no"
n = 9; p = "bf16" if n % 2 == 1 else "no"
n = 9; p = "bf16" if n - 1 == 8 else "no"
p = str("bf16")
p = "bf16" if int("8") == 8 else "no"
p = "bf16" if bool("") else "no"
p = "bf16" if "bf16".startswith("bf") else "no"
p = "bf16" if "bf16".endswith("bf") else "no"
p = "no"\nif 1:\n    p = "bf16"
p = "no"\nif 0:\n    p = "bf16"
p = "no"\nif 0:\n    p = "bf16"\nelif 1:\n    p = "fp16"
p = "no"\nfor p in ("fp16", "bf16"):\n    pass
p = "no"\nfor n in (1, 2):\n    continue\nelse:\n    p = "bf16"
def f(x="fp16"):\n    return x\np = f()
def f(x="fp16"):\n    return x\np = f("bf16")
def f(*a, **k):\n    return k["x"]\np = f(1, x="bf16")
def f(a, *, b="no"):\n    return b\np = f(1, b="fp16")
def f(a, b):\n    if a:\n        return b\n    return "no"\np = f(0, "bf16")
def f():\n    global p\n    p = "bf16"\np = "no"\nf()
f = lambda x: x + "16"\np = f("bf")
def f():\n    x = "no"\n    def g():\n        nonlocal x\n        x = "bf16"\n    g()\n    return x\np = f()
p = "no"\nfor n in (1, 2):\n    p = "fp16"\n    break\nelse:\n    p = "bf16"
p = list(sorted(["bf16"]))[0]
class C:\n    p = "bf16"\np = C.p
class C:\n    def __init__(self, p):\n        self.p = p\np = C("fp16").p
class C:\n    def f(self):\n        return "bf16"\nclass D(C):\n    pass\np = D().f()
class C:\n    p = "no"\nclass D(C):\n    p = "bf16"\np = D().p
match "b":\n    case "a":\n        p = "no"\n    case "b":\n        p = "bf16"
match "c":\n    case x:\n        p = "bf16" if x == "c" else "no"
try:\n    p = "bf16"\nfinally:\n    pass
p = "no"\nwhile True:\n    p = "bf16"\n    break
p = (q := "bf16")
p = "bf16" if "b" > "a" else "no"
assert True; p = "bf16"
l = ["no"]; l.append("bf16"); p = l[1]
l = ["no"]; l += ["bf16"]; p = l[1]
p = tuple(["no", "bf16"])[1]
"""
UNKNOWN = r"""
p = "{}{}".format("bf", 16)
p = "%s16" % "fp"
p = "%s%d" % ("bf", 16)
p = ["no", "fp16", "bf16"][1:][0]
a, *b = "no", "fp16", "bf16"; p = b[1]
n = 2; p = "bf16" if n ** 3 == 8 else "no"
n = -3; p = "bf16" if abs(n) == 3 else "no"
p = "bf16" if max(1, 2) == 2 else "no"
p = "bf16" if min(1, 2) == 2 else "no"
p = "bf16" if len([1, 2]) == 2 else "no"
p = "bf16" if any([0, 1]) else "no"
p = "bf16" if all([0, 1]) else "no"
p = "bf16" if isinstance("a", str) else "no"
p = "no"\nfor n in range(3):\n    if n == 2:\n        p = "bf16"
p = [x for x in ("no", "bf16") if x != "no"][0]
p = {x: x for x in ("no", "bf16")}["bf16"]
p = "".join(["bf", "16"])
p = "-".join(("a", "b")) and "fp16"
match "c":\n    case "a" | "b":\n        p = "no"\n    case _:\n        p = "fp16"
p = "bf16" if (1, 2) == (1, 2) else "no"
p = "bf16" if [1] + [2] == [1, 2] else "no"
import os; os.environ["X"] = "bf16"; p = os.environ["X"]
import os; os.environ["X"] = "bf16"; p = os.environ.get("X", "no")
l = ["no", "bf16"]; p = l.pop()
l = ["no"]; l.extend(["fp16", "bf16"]); p = l[2]
p = "bf16" if sum([1, 2]) == 3 else "no"
p = dict(zip(("a", "b"), ("no", "bf16")))["b"]
p = list(enumerate(("no", "bf16")))[1][1]
p = getattr(type("C", (), {"p": "bf16"}), "p")
p = sorted(["no", "bf16"])[0]
p = list(reversed(("no", "bf16")))[0]
p = "no"\nfor n in (1, 2):\n    if n == 2:\n        p = "bf16"\n        break\nelse:\n    p = "fp16"
"""


def snippets(lines: str) -> list[str]:
    return [line.replace("\\n", "\n") for line in lines.strip().splitlines()]


def run(snippet: str) -> object:
    names: dict[str, object] = {}
    exec(snippet, names)
    return names["p"]


def read(snippet: str) -> str:
    text = f"from accelerate import Accelerator\n{snippet}\nAccelerator(mixed_precision=p)\n"
    reading = analyze_script(text, "train.py")
    assert not reading.problem, reading.problem
    (site,) = reading.precision
    return site.value


@pytest.mark.parametrize("snippet", snippets(KNOWN))
def test_a_value_is_what_python_makes_of_it(snippet: str) -> None:
    assert read(snippet) == run(snippet)


@pytest.mark.parametrize("snippet", snippets(UNKNOWN))
def test_a_value_that_reading_does_not_compute_is_unknown_and_never_another_one(snippet: str) -> None:
    assert read(snippet) in ("", run(snippet))


def test_options_that_deepspeed_adds_leave_the_parser_as_it_was() -> None:
    added = "import deepspeed; q = deepspeed.add_config_arguments(q)"
    made = "import argparse; q = argparse.ArgumentParser(); q.add_argument('--p', default='bf16')"
    assert read(f"{made}\n{added}\np = q.parse_args().p") == "bf16"
