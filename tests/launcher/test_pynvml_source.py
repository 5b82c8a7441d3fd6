"""Of nvidia-ml-py travels what the agent can reach; what is left of the module is whole."""

import builtins
import dis
import re
import sys
import zlib
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

import pynvml
import pytest

from launcher.remote.pynvml_source import pack_pynvml, trim_module

NVML = Path(__file__).parents[2] / "preflight" / "probes" / "nvml"


def globals_of(code: CodeType) -> Iterator[str]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from globals_of(each)
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval


def test_all_that_the_agent_names_travels_and_all_that_this_names(monkeypatch: pytest.MonkeyPatch) -> None:
    text = zlib.decompress(pack_pynvml()).decode()
    assert len(text) < len(Path(pynvml.__file__).read_text()) / 4
    code, module = compile(text, "pynvml.py", "exec"), ModuleType("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", module)  # it looks for itself by its name
    exec(code, module.__dict__)
    words = {word for path in NVML.glob("*.py") for word in re.findall(r"\w+", path.read_text())}
    named = {word for word in words if hasattr(pynvml, word)}
    assert len(named) > 45
    assert {word for word in named if not hasattr(module, word)} == set()
    known = module.__dict__.keys() | vars(builtins).keys() | {"__qualname__"}
    assert set(globals_of(code)) - known == set()
    assert vars(module.NVMLError)["_valClassMapping"].keys() == pynvml.NVMLError._valClassMapping.keys()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A = 1\nB = 2  # two\nC = [A]\n", "A = 1\nC = [A]\n"),
        ("def f():\n    return 1\n\n\ndef used():\n    return 2\n", "def used():\n    return 2\n"),
        (  # what is reached by what is reached, and a decorator goes with its function
            "def a():\n  b()\n@deco\ndef b():\n  pass\n@deco\ndef c():\n  pass\ndef deco():\n  x\nused = a\n",
            "def a():\n  b()\n@deco\ndef b():\n  pass\ndef deco():\n  x\nused = a\n",
        ),
        ("used = 1\nused = 2\nother = 3\n", "used = 1\nused = 2\n"),
        ("NVML_ERROR_X = 7\nNVML_X = 8\n", "NVML_ERROR_X = 7\n"),
        ("if used:\n    a = 1\nelse:\n    a = 2\na = 3\n", "if used:\n    a = 1\nelse:\n    a = 2\na = 3\n"),
        ("class A:\n  x = 1\n# of B\nclass B(A):\n\n  y = 2\nused = B()\n",) * 2,
        ('def f():\n  """Says\nmore.\n  """\nused = 1\n',) * 2,  # a string at the left margin: all of it
        ("def f():\n  '''Says\ndef more.\n  '''\n",) * 2,
        ('def f():\n  """Says."""\n  """And\n  more."""\nused = 1\n', "used = 1\n"),
        ("def f(): pass", "def f(): pass"),  # no line end: left as it is
        ("def f(\n    a,\n):\n    return a\nused = 1\n",) * 2,  # its end is at the left margin: all of it
        ("@deco(\n  1)\ndef f():\n  pass\n",) * 2,
        ("used = 1\n@deco(\n  1)\ndef f():\n  pass\n",) * 2,
        ("def f():\n  return (\n1)\nused = 1\n",) * 2,  # a bracket closes at the left margin
        ("def f():\n  return 1 + \\\n2\nused = 1\n",) * 2,
        ("@deco\n# Since 13\ndef f():\n  pass\nused = 1\n", "used = 1\n"),
        ("def f():  # as g\n  pass\nused = 1\n", "used = 1\n"),
    ],
)
def test_parts_that_nothing_names_are_left_out(text: str, left: str) -> None:
    assert trim_module(text, {"used"}) == left


@pytest.mark.parametrize(
    ("data", "sent"),
    [(b"A = 1\xe9\n", ""), (b"\xef\xbb\xbfA = [1]\r\n", "A = [1]\n"), (None, "")],
    ids=["latin-1", "byte order mark", "no file"],
)
def test_a_module_that_cannot_be_read_leaves_the_gpus_to_nvidia_smi(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes | None, sent: str
) -> None:
    place = tmp_path / "pynvml.py"
    if data is not None:
        place.write_bytes(data)
    spec = ModuleSpec("pynvml", None, origin=str(place))
    monkeypatch.setattr("launcher.remote.pynvml_source.find_spec", lambda _: spec)
    packed = pack_pynvml.__wrapped__()
    assert (zlib.decompress(packed).decode() if packed else "") == sent
