# SPDX-License-Identifier: Apache-2.0
"""Public architectures with small random weights, exported by both of PyTorch's exporters and judged: `python -m bench.zoo`."""
