"""`python -m tests.lab profile FILE`: a saved `nvidia-smi -q -x` as a profile on stdout."""

import argparse
import sys
from pathlib import Path

from tests.lab.silicon.from_xml import profile_from_xml
from tests.lab.silicon.profile import ProfileError, load_profile, profile_names, profile_yaml


def main(arguments: list[str]) -> int:
    """Print the profile of FILE as YAML; without FILE, the names of those that are there."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab profile", description=__doc__)
    parser.add_argument("file", nargs="?", default="", help="a saved `nvidia-smi -q -x`; - reads stdin")
    options = parser.parse_args(arguments)
    if not options.file:
        for name in profile_names():
            sys.stdout.write(f"{name}: {load_profile(name).about}\n")
        return 0
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text()
        profile = profile_from_xml(text, Path(options.file).stem if options.file != "-" else "stdin")
    except (OSError, ProfileError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(profile_yaml(profile))
    return 0
