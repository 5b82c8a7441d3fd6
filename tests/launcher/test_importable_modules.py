from pathlib import Path

from launcher.follow.failure_diagnosis import list_own_modules


def test_files_packages_and_src_are_ones_own_and_data_is_not(tmp_path: Path) -> None:
    for name in ("train.py", "mylib/net.py", "deep/inner/__init__.py", "src/tools/x.py", "datasets/a.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert list_own_modules(tmp_path) == {"train", "mylib", "deep", "src", "tools"} - {"src"}
    assert list_own_modules(tmp_path / "absent") == frozenset()
