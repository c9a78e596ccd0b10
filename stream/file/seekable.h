// SPDX-License-Identifier: Apache-2.0
// The seekable form of Zstandard data: independent frames, and at the end a skippable frame with a table of their
// sizes. Any decoder reads it as ordinary zstd data; a reader of the table can read at random positions.
//
//     frame 0 | frame 1 | ... | 0x184D2A5E, bytes of the table | table: 8 or 12 bytes a frame | frames, flags,
//     0x8F92EAB1
//
// An entry is the frame's compressed size, its decompressed size, and, where the flag says so, a checksum; all numbers
// are 32-bit and little-endian, the flags one byte. Specified in zstd's contrib/seekable_format.
#pragma once

#include <cstdint>

namespace lowtide::stream::seekable {

inline constexpr uint32_t kSkippableMagic = 0x184D2A5E;
inline constexpr uint32_t kMagic = 0x8F92EAB1;
inline constexpr uint64_t kSkippableHeaderBytes = 8;
inline constexpr uint64_t kFooterBytes = 9;  // frames, flags, magic
inline constexpr uint64_t kEntryBytes = 8;
inline constexpr uint64_t kChecksumBytes = 4;
inline constexpr uint8_t kHasChecksums = 0x80;
inline constexpr uint8_t kReservedFlags = 0x7C;  // must be zero
inline constexpr uint32_t kMaxFrames = 0x8000000;

}  // namespace lowtide::stream::seekable
