"""`python -m launcher`, the same command as `gpulaunch`."""

from gpulaunch import main  # it finds our own `preflight`, whatever the working directory calls its packages

if __name__ == "__main__":
    main()
