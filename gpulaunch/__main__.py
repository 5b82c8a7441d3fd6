"""`python -m gpulaunch`."""

from gpulaunch import main

if __name__ == "__main__":
    main()
