"""Two ranks of one process group, on the CPU with gloo or, where `nccl` is asked for, each on a GPU of its own.

    def run(rank, device, *words): ...
    start(run, *words, backend="nccl")      run(0, cuda:0, *words) and run(1, cuda:1, *words), in two processes
"""

import datetime
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def asked_for():
    """The backend that the words of the command line name, and the words without it."""
    words = [word for word in sys.argv[1:] if word not in ("gloo", "nccl")]
    return ("nccl" if "nccl" in sys.argv[1:] else "gloo"), words


def start(run, *words, backend="gloo"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    mp.spawn(_rank, (run, port, backend, words), nprocs=2)


def _rank(rank, run, port, backend, words):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": "2"}
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=datetime.timedelta(minutes=5))
    run(rank, device, *words)
    leave()


def leave():
    """Without finalisers: torch's threads let go of collectives and of their callbacks when they like, and abort the process if Python is
    being taken down by then. (Eager alone: 2 of 12 runs with collectives that nobody waited for.)"""
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
