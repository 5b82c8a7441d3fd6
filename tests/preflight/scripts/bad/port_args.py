import os, argparse
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--port", default=12345, type=int)
    a = p.parse_args()
    os.environ["MASTER_PORT"] = f"{a.port}"  # expect: D207 warning
main()
