# Python's own `re` as another version has it: its compiler finds another constant in the interpreter.
import re
import shutil
from pathlib import Path

shutil.copytree(Path(re.__file__).parent, "lib/re")
constants = Path("lib/re/_constants.py")
constants.write_text(constants.read_text().replace("MAGIC = ", "MAGIC = 1 + ", 1))
