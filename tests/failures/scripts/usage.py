import argparse
parser = argparse.ArgumentParser()
parser.parse_args(['--lr', '1'])
