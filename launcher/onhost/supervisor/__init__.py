"""Supervision of one node of a run on its host, and the modules that all parts of it share.

daemon/ holds the processes that outlive the connection: the guardian, the supervisor, and the supervisor's
parts. requests/ holds the requests of a client, which main.py lists.

Three processes outlive the connection: `guardian -> supervisor -> launcher -> ranks`; the rank of a world of
one is started in the launcher's place. Guardian and supervisor are child subreapers, so nothing a rank starts
can leave the tree, however it daemonises. If the supervisor is killed, the guardian ends the tree; if both
are, the launcher has PR_SET_PDEATHSIG, and each rank holds the read end of `lifeline`, a FIFO: when its last
writer exits, the kernel itself kills the rank's process group. Where permitted, the run has a control group
of its own (run_cgroup.py), from which no process can leave.

The guardian of a start that has failed, and may be started again, stays as its keeper (next_start.py).

run_dir.py lists the files of the run directory. The directory is the single source of truth: a client that
reconnects, or another one, finds the complete state of the run in it.
"""
