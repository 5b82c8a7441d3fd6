"""Receiver of a working tree's files into one directory of a host, all of them or none.

Nothing outside the directory is ever written: paths are walked component by component without following a
symlink. A replaced file that no former sync wrote is kept in .gpulaunch-sync/replaced/.
"""
