# SPDX-License-Identifier: Apache-2.0
"""Limits of time. What is judged is CPU time: wall time depends on what else the machine does, and only ends what hangs."""

SHARE = 20  # of a busy machine, a process may get one in so many seconds
START = 60  # seconds until it runs at all


def hang(cpu_seconds):
    """Seconds of wall time after which a process that may use `cpu_seconds` of CPU certainly hangs."""
    return START + SHARE * cpu_seconds


def limited(cpu_seconds, address_space=None):
    """Words to put before a command: SIGXCPU ends it after so many seconds of CPU, and no core is dumped."""
    space = [f"--as={address_space}"] if address_space else []
    return ["prlimit", f"--cpu={cpu_seconds}:{cpu_seconds + 1}", "--core=0", *space]
