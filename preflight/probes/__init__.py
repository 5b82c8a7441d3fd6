"""What the agent looks at on a host, a module for each subject. These travel to the host with `agent.py`.

Standard library (plus psutil where the host's Python has it), Python >= 3.9; they name each other relatively,
because on the host their package has another name. None imports `agent.py`.
"""
