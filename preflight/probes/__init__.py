"""The agent (`main.py`) and what it looks at on a host, a module for each subject; the whole folder travels.

Standard library (plus psutil where the host's Python has it), Python >= 3.9; they name each other relatively,
because on the host their package has another name. None imports `main.py`.
"""
