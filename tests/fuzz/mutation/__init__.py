# SPDX-License-Identifier: Apache-2.0
"""What tests/fuzz/mutants.py changes of a model, one idea a file."""
