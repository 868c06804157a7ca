"""Networks of convolutions on a GPU: inference in bfloat16 and training steps under autocast, ours, torch.compile's and eager's.

    PYTHONPATH=engine python bench/gpu_images.py                       all models, into RESULTS.md
    PYTHONPATH=engine python bench/gpu_images.py resnet50 --dearest 12     one, printed, with the kernels that take the most time

Images come in rows, as programs have them. Calls are timed in turn in one process, a round of each after the other; kernels are what
torch's profiler adds up on the device, which does not depend on how fast the host is. Peak memory is of one call, above what is held.
Needs timm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine"))

import dynascope  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
from gpu_calls import in_turn, kernels_of, peak_megabytes  # noqa: E402
from results import write_section  # noqa: E402

COMMAND = "PYTHONPATH=engine python bench/gpu_images.py"
MODELS = ("resnet50", "convnext_tiny", "efficientnet_b0", "densenet121", "vgg16")
SIDES: dict[str, Callable] = {
    "eager": lambda model: model,
    "torch.compile": lambda model: torch.compile(model, dynamic=False),
    "ours": dynascope.compile,
}
BATCH, SIZE, CLASSES = 32, 224, 1000
ROUNDS, CALLS = 9, 5


def inference(name: str) -> Callable[[str], Callable[[], None]]:
    model = timm.create_model(name).cuda().eval().bfloat16()
    images = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda", dtype=torch.bfloat16)

    def call_of(side: str) -> Callable[[], None]:
        call = SIDES[side](model)

        def run() -> None:
            with torch.no_grad():
                call(images)

        return run

    return call_of


def training(name: str) -> Callable[[str], Callable[[], None]]:
    model = timm.create_model(name).cuda().train()
    images, classes = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda"), torch.randint(0, CLASSES, (BATCH,), device="cuda")

    def call_of(side: str) -> Callable[[], None]:
        call = SIDES[side](model)

        def step() -> None:
            model.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(call(images), classes)
            loss.backward()

        return step

    return call_of


WAYS = {"inference": inference, "training step": training}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names of timm's")
    parser.add_argument("--dearest", type=int, default=0, metavar="N", help="so many kernels of each side")
    options = parser.parse_args()
    rows = []
    for name in options.models or MODELS:
        for way, make in WAYS.items():
            torch.manual_seed(0)
            torch._dynamo.reset()
            call_of = make(name)
            calls = {side: call_of(side) for side in SIDES}
            for call in calls.values():
                call()
                call()
            peaks = {side: peak_megabytes(call) for side, call in calls.items()}
            times = in_turn(calls, ROUNDS, CALLS)
            for side, call in calls.items():
                kernels = kernels_of(call, CALLS)
                total = sum(each[0] for each in kernels)
                rows.append([f"{name}, {way}", side, f"{times[side]:.2f}", f"{total:.2f}", f"{peaks[side]:.0f}"])
                print(" | ".join(rows[-1]), flush=True)
                for milliseconds, launches, kernel in kernels[: options.dearest]:
                    print(f"    {milliseconds * 1e3:8.1f} us x{launches:<4} {kernel[:100]}")
            torch.cuda.empty_cache()
    if options.models:
        return
    columns = ["network", "by", "call, ms", "kernels, ms", "peak above what is held, MB"]
    note = f"{BATCH} images of {SIZE} x {SIZE}; inference in bfloat16, training under bfloat16 autocast."
    write_section(f"Images on a GPU, {torch.cuda.get_device_name().split()[1]}", COMMAND, columns, rows, note)


if __name__ == "__main__":
    main()
