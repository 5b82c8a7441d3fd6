"""Simulated hosts on this machine, for tests, benches and hands: real sshd, real processes, real faults.

Each host is a set of namespaces (network, PID, UTS, IPC, mount) with an address in 10.77.0.0/16, a host
name, a root file system of its own (an overlay in memory), /dev/shm, /tmp and homes of its own, accounts
root, alice and bob, an init that reaps, and an sshd with its own host key. The checkout, this interpreter and
`OUT/shared` are the same files on all of them. By hand, as root:

    python -m tests.lab up --hosts 3 --out /tmp/lab    # leaves hosts.yaml, ssh_config, known_hosts, a key
    ssh -F /tmp/lab/ssh_config node-1
    python -m tests.lab down --out /tmp/lab

In tests, the fixtures `lab` (three hosts, shared, to be left as found) and `fresh_lab` (to be broken); the
faults are functions in these modules, each shown at work in test_lab*.py:

    hosts      run and popen on a host, its files and processes, halt and boot
    network    cut and restore, slow and lossy cables, closed ports, hosts behind hosts
    sshd       kill, freeze, settings, passwords, changed host keys
    actors     held ports, zombies, half-dead, stopped, stuck and stubborn processes, daemons, orphaned ranks
    software   login noise, bad interpreters, a name that resolves to loopback, small and full disks
    clock      a wall clock that jumps
    silicon    simulated GPUs (`--profile`)

layout says what a lab is; bringup, fabric, rootfs, init, files, processes and kernel build it.
"""
