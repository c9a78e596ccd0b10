# SPDX-License-Identifier: Apache-2.0
"""Converts one network of the zoo by litert-torch: `python -m bench.zoo.litert_torch NAME OUTPUT`, in its own environment."""

import sys

import litert_torch
import torch

from bench.zoo.export import build
from bench.zoo.table import NETWORKS


def main():
    name, output = sys.argv[1:]
    torch.set_num_threads(1)
    network = NETWORKS[name]
    model = build(network, "small", "sdpa")
    size = network.size("small")
    arrays = tuple(torch.from_numpy(given.array(size)) for given in network.all_inputs())
    litert_torch.convert(model, arrays).export(output)


if __name__ == "__main__":
    main()
