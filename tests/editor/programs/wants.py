import argparse
import glob

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
steps = parser.parse_args().steps
open(f"steps-{steps}-{len(glob.glob('steps-*'))}", "w").close()
