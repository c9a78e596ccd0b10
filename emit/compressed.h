// SPDX-License-Identifier: Apache-2.0
// Writes a planned file as seekable Zstandard data (.tflite.zst): frames of one MiB of the file each, compressed by
// themselves, from the front to the end, because nobody knows how long a compressed payload is before it is there.
//
// The traps: the bytes must not depend on the number of threads, so frames are cut by the plan alone and stored in
// order; the decoder's window is a frame, so a reader needs no more than a MiB for it; the table at the end takes four
// bytes of memory a frame.
#pragma once

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/out_file.h"

namespace lowtide::emit {

inline constexpr uint64_t kFrameBytes = uint64_t{1} << 20;

// The largest size that the compressed file can take.
uint64_t compressed_bound(const Plan& plan);
// The least budget that write_compressed works with.
uint64_t least_for_compressing(const Plan& plan, int level);
// Returns the size of what was written. Throws Error(kBudget) when a thread's buffers do not fit, and what reading the
// weights and writing throw.
uint64_t write_compressed(const Plan& plan, int level, stream::OutFile& out, stream::Budget& budget,
                          const WriteOptions& options);

}  // namespace lowtide::emit
