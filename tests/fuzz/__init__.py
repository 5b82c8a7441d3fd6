"""Every door through which text of others comes in, and a fuzzer that knocks at each.

`make fuzz` gives each door ten minutes, `make test` one second (`FUZZ_S`). A door holds when only its
own errors comes out of it, within five seconds of CPU time and 500 MB. An input for which it does not hold is
kept in `fuzz-failures/`, and `make fuzz INPUT=FILE` tries it again; once repaired it belongs in `corpus/`.
"""
