"""Takes the files of a working tree into one directory of a host, all of them or none.

Nothing outside the directory is ever written: paths are walked component by component without following a
link. A file that is replaced and that no former sync put there is kept in .gpulaunch-sync/replaced/.
"""
