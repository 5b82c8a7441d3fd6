"""Starts, watches and ends one node of a run on its host. What every part of it uses lies here.

daemon/ is what outlives the connection: the guardian, the supervisor, and what each part of it minds.
requests/ is what a client's command does here: start, follow, list, fetch, stop, remove.

Three processes outlive the connection: `guardian -> supervisor -> launcher -> ranks`. Guardian and supervisor
are child subreapers, so nothing a rank starts can leave the tree, however it daemonises. If the supervisor is
killed, the guardian ends the tree; if both are, the launcher has PR_SET_PDEATHSIG, and each rank holds the
read end of `lifeline`, a FIFO whose last writer's end makes the kernel itself kill the rank's process group.
Where it may, the run has a control group of its own (cgroup.py), from which nothing can leave at all.

What a file of the run directory is for is said in run_dir.py. It is all the truth there is: a client that
comes back, or another one, finds everything there.
"""
