"""What a rank tells of accelerate, torch and its GPU, once a script has set them up."""

from pathlib import Path

import pytest

from tests.field_notes.ranks import LIGHT, shimmed
from tests.launcher.test_rank import Place

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


FAKE_STATE = """
class PartialState:
    _shared_state = {}
    def __init__(self):
        self.__dict__ = self._shared_state
        if not self.__dict__:
            import types
            self.num_processes, self.process_index = 4, 2
            self.device = types.SimpleNamespace(type="cpu", index=None, __str__=lambda: "cpu")
class AcceleratorState:
    _shared_state = {}
    def __init__(self, precision="no"):
        self.__dict__ = self._shared_state
        PartialState()
        self._mixed_precision = precision
    mixed_precision = property(lambda self: self._mixed_precision)
"""


def test_what_accelerate_sets_up_is_reported_once(place: Place) -> None:
    place.write("accelerate/__init__.py", "")
    place.write("accelerate/state.py", FAKE_STATE)
    place.write("s.py", "from accelerate.state import *\nfor _ in range(9): AcceleratorState('bf16')")
    assert place.rank("s.py") == (0, b"")
    first, last = place.events("state")
    assert (first["world_size"], first["world_rank"], "mixed_precision" in first) == (4, 2, False)
    assert last["mixed_precision"] == "bf16"


FAKE_TORCH = """
from types import SimpleNamespace as Some
class cuda:
    is_initialized = staticmethod(lambda: True)
    get_device_properties = staticmethod(lambda device: Some(uuid="5a5a"))
"""


FAKE_PARALLEL = """
from types import SimpleNamespace as Some
class DistributedDataParallel:
    def __init__(self, kind): self.kind = kind
    def parameters(self):
        return iter([Some(device=Some(type=self.kind, index=1))] if self.kind else [])
"""


@pytest.mark.parametrize(("kind", "device"), [("cuda", ["GPU-5a5a"]), ("cpu", []), ("", [])])
def test_a_wrapped_model_tells_the_device_where_it_is_a_gpu(
    place: Place, kind: str, device: list[str]
) -> None:
    place.write("torch/__init__.py", FAKE_TORCH)
    place.write("torch/nn/__init__.py", "")
    place.write("torch/nn/parallel/__init__.py", "")
    place.write("torch/nn/parallel/distributed.py", FAKE_PARALLEL)
    place.write(
        "s.py",
        "from torch.nn.parallel.distributed import DistributedDataParallel as D\n"
        f"print([D({kind!r}).kind for _ in range(2)])",
    )
    assert place.rank("s.py") == (0, f"{[kind, kind]}\n".encode())
    assert [event["gpu"] for event in place.events("state")] == device


FAKE_CUDA = """
started = []
def _lazy_init(): started.append(len(started))
is_initialized = lambda: len(started) > 1  # the first call finds another thread at it
device_count = lambda: COUNT
def get_device_properties(device):
    from types import SimpleNamespace as Some
    return Some(uuid="5a5a")
"""


@pytest.mark.parametrize(
    ("count", "world", "device"), [(1, "1", ["cuda:0 GPU-5a5a"]), (2, "1", []), (1, "2", [])]
)
def test_a_rank_alone_tells_its_gpu_once_cuda_has_started(
    place: Place, count: int, world: str, device: list[str]
) -> None:
    place.write(
        "torch/__init__.py",
        "class device:\n"
        "    type = 'cuda'\n"
        "    def __init__(self, kind, index): self.index = index\n"
        "    __str__ = lambda self: f'cuda:{self.index}'\n",
    )
    place.write("torch/cuda.py", FAKE_CUDA.replace("COUNT", str(count)))
    place.write(
        "s.py",
        "import torch.cuda as c\nfor _ in range(4): c._lazy_init()\n"
        "print(len(c.started), c._lazy_init.__name__)",
    )
    assert place.rank("s.py", WORLD_SIZE=world) == (0, b"4 _lazy_init\n")
    assert [f"{event['device']} {event['gpu']}" for event in place.events("state")] == device
    assert not place.events("internal_error")[1:]  # there is no supervisor in this test


def test_what_another_library_has_put_around_the_start_of_cuda_stays(place: Place) -> None:
    place.write(
        "torch/__init__.py", "class device:\n    type = 'cuda'\n    def __init__(self, *_): self.index = 0"
    )
    place.write("torch/cuda.py", FAKE_CUDA.replace("COUNT", "1"))
    place.write(
        "s.py",
        "import torch.cuda as c\nours = c._lazy_init\ndef theirs(): ours()\nc._lazy_init = theirs\n"
        "for _ in range(3): c._lazy_init()\nprint(len(c.started), c._lazy_init is theirs)",
    )
    assert place.rank("s.py", WORLD_SIZE="1") == (0, b"3 True\n")
    assert len(place.events("state")) == 1


def test_a_failure_of_ours_never_harms_the_script(place: Place) -> None:
    place.write("accelerate/__init__.py", "")
    place.write("accelerate/state.py", "strange = 1")
    place.write("s.py", "import accelerate.state, inspect; print(inspect.getsource(accelerate.state))")
    assert place.rank("s.py") == (0, b"strange = 1\n\n")
    assert place.events("internal_error")


@pytest.mark.train
def test_torch_and_accelerate_tell_what_they_have_set_up(place: Place) -> None:
    place.write(
        "s.py", "from accelerate import Accelerator; a = Accelerator(mixed_precision='bf16'); print('ok')"
    )
    code, output = place.rank("s.py", ACCELERATE_USE_CPU="true", **shimmed(LIGHT))
    assert (code, output[-3:]) == (0, b"ok\n")
    last = place.events("state")[-1]
    assert (last["world_size"], last["world_rank"], last["device"]) == (1, 0, "cpu")
    assert last["mixed_precision"] == "bf16"
    failed = [event["what"] for event in place.events("internal_error")]
    assert failed == ["tie the rank to its supervisor"]  # there is none in this test


@pytest.mark.train
def test_gloo_is_ended_before_the_interpreter(place: Place) -> None:
    """Its threads may else meet a finalizing Python, and the rank aborts after its script had ended well."""
    place.write(
        "t.py",
        "import atexit, os, torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)\n"
        "import __main__, sys\n"
        "class Late:\n"
        "    def __del__(self): os.write(1, str(dist.is_initialized()).encode())\n"
        "late = Late()\n",
    )
    code, log = place.rank("t.py", **shimmed("no_compiler no_dtensor"))
    assert (code, log) == (0, b"False")
