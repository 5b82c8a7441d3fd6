"""`gpulaunch init`: the interpreters of hosts and the first files."""
