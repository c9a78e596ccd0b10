# SPDX-License-Identifier: Apache-2.0
"""Zstandard frames made by hand: valid ones without a compressor, and broken ones, which no compressor makes.

The layout is that of RFC 8878: magic, header (window or declared size), blocks; a block is raw or one byte repeated.
"""

MAGIC = bytes.fromhex("28b52ffd")
MOST_IN_A_BLOCK = 128 * 1024
RAW, REPEATED, RESERVED = 0, 1, 3


def block(kind, size, body, last=False):
    return (int(last) | kind << 1 | size << 3).to_bytes(3, "little") + body


def header(size=None, window_log=None):
    """With a declared size (the window is as large) or a window of 2 ** window_log bytes, or both."""
    declared = b"" if size is None else size.to_bytes(8, "little")
    descriptor = 0xC0 if declared else 0
    if window_log is None:
        return MAGIC + bytes([descriptor | 0x20]) + declared
    return MAGIC + bytes([descriptor, window_log - 10 << 3]) + declared


def raw_frame(data):
    """A frame that holds `data` as they are."""
    pieces = [data[i : i + MOST_IN_A_BLOCK] for i in range(0, len(data), MOST_IN_A_BLOCK)] or [b""]
    blocks = [block(RAW, len(piece), piece, last=i == len(pieces) - 1) for i, piece in enumerate(pieces)]
    return header(len(data)) + b"".join(blocks)
