"""What fails while a run cleans up behind a failure is not what ended it; what fails instead of it is."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_ABOVE = (
    'Traceback (most recent call last):\n  File "/p/t.py", line 8, in fit\n    x = open(p)\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.json'\n\n"
    "During handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n"
)


def _second(function: str, source: str, message: str) -> str:
    causes = diagnose(f'{_ABOVE}  File "/p/t.py", line 30, in {function}\n    {source}\n{message}\n').causes
    return causes[0].code


@pytest.mark.parametrize(
    ("function", "source", "message"),
    [
        ("main", "self.writer.close()", "AttributeError: 'Trainer' object has no attribute 'writer'"),
        ("main", "pool.terminate()", "UnboundLocalError: local variable 'pool' referenced before assignment"),
        ("main", "pool.join()", "UnboundLocalError: cannot access local variable 'pool' where it is not set"),
        ("main", "dist.destroy_process_group()", "NameError: name 'dist' is not defined"),
    ],
)
def test_what_lacks_while_a_run_cleans_up_is_not_the_cause(function: str, source: str, message: str) -> None:
    assert _second(function, source, message) == "S92"


def test_a_function_that_cleans_up_is_known_by_its_name() -> None:
    below = (
        '  File "/p/t.py", line 3, in <module>\n    main()\n  File "/p/t.py", line 9, in cleanup\n    a.b()\n'
    )
    lacks = "AttributeError: 'NoneType' object has no attribute 'b'\n"
    assert diagnose(f"{_ABOVE}{below}{lacks}").causes[0].code == "S92"


@pytest.mark.parametrize(
    ("function", "source", "message", "code"),
    [
        ("load", "build(cfg.sources)", "AttributeError: 'Config' object has no attribute 'sources'", "S00"),
        ("load", "return rows[idx]", "NameError: name 'idx' is not defined", "S00"),
        ("load", "return make(n)", "ValueError: n must be positive", "S00"),
        ("closest", "self.enclose(x)", "AttributeError: 'Box' object has no attribute 'enclose'", "S00"),
        ("main", "w.close()", "ValueError: I/O operation on closed file.", "S00"),
        (
            "main",
            "self.close()",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "S20",
        ),
    ],
)
def test_what_fails_in_place_of_the_first_is_the_cause(
    function: str, source: str, message: str, code: str
) -> None:
    assert _second(function, source, message) == code


def _read_in_spawn(path: str, function: str) -> str:
    frame = f'  File "{path}", line 90, in {function}\n    fn(i, *args)\n'
    cut = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    head = "-- Process 0 terminated with the following error:\nTraceback (most recent call last):\n"
    return diagnose(f"{head}{frame}{cut}\n").causes[0].code


def test_a_cut_checkpoint_in_a_spawned_rank_is_not_about_spawn() -> None:
    assert _read_in_spawn("/v/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", "_wrap") == "S85"
    frame = '  File "/usr/lib/python3.11/multiprocessing/spawn.py", line 126, in _main\n'
    raised = f"Traceback (most recent call last):\n{frame}"
    sent = f"{raised}    self = reduction.pickle.load(from_parent)\nEOFError: Ran out of input\n"
    assert diagnose(sent).causes[0].code == "S106"


_LOST = "torch.distributed.DistBackendError: NCCL error, remote process exited or there was a network error"
_HANDLED = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


def _before_a_lost_peer(frame: str, raised: str) -> str:
    head = "Traceback (most recent call last):\n"
    lost = f'{head}  File "/p/t.py", line 9, in <module>\n    dist.barrier()\n{_LOST}\n'
    return diagnose(f"{head}{frame}    f()\n{raised}{_HANDLED}{lost}").causes[0].code


def test_a_peer_that_is_lost_behind_an_own_exception_is_not_the_cause() -> None:
    own = '  File "/p/t.py", line 1, in train\n'
    assert _before_a_lost_peer(own, "KeyError: 'x'") == "S00"
    assert _before_a_lost_peer(own, "FileNotFoundError: [Errno 2] No such file or directory: '/d/a'") == "S92"


def test_a_peer_that_is_lost_where_a_library_handles_its_own_is_the_cause() -> None:
    library = '  File "/usr/lib/python3.11/queue.py", line 168, in get\n'
    assert _before_a_lost_peer(library, "_queue.Empty") == "S57"
