"""What `explain` says of a check is read from its source, and is what the table holds."""

import json
import subprocess
import sys

from preflight.checks.check_docs import CheckText, find_check_text
from preflight.checks.runner import load_checks

ALONE = """
import json, sys
from preflight.checks.explain import render_explanation
from preflight.checks.check_docs import find_check_text
text = render_explanation(find_check_text("PROC001"))
json.dump([name for name in sys.modules if name.startswith("preflight.")], sys.stdout)
"""


def test_every_code_finds_the_text_of_its_check() -> None:
    for code, check in load_checks().items():
        assert find_check_text(code) == CheckText(
            code, check.text, check.severity.value, check.gate, check.scope, check.gpu_only
        )
    assert find_check_text("NONE001") is None


def test_one_check_is_explained_without_checks_and_facts() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert sorted(json.loads(done.stdout)) == [
        "preflight.checks",
        "preflight.checks.check_docs",
        "preflight.checks.explain",
    ]
