"""A check that is found by its code alone: the one that the table holds, whatever was imported before."""

import json
import subprocess
import sys

from preflight.checks.lookup import find_check
from preflight.checks.runner import all_checks

ALONE = """
import json, sys
from preflight.checks.lookup import find_check
text = find_check("PROC001").text
loaded = [name for name in sys.modules if name in ("preflight.checks.table", "preflight.checks.driver")]
unknown = find_check("NONE001") is None
from preflight.checks.runner import all_checks
json.dump([text, loaded, unknown, list(all_checks())], sys.stdout)
"""


def test_every_code_finds_its_check() -> None:
    assert all(find_check(code) is check for code, check in all_checks().items())


def test_one_check_loads_no_other_and_changes_no_order() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    text, loaded, unknown, order = json.loads(done.stdout)
    assert text == all_checks()["PROC001"].text
    assert (loaded, unknown) == ([], True)
    assert order == list(all_checks())
