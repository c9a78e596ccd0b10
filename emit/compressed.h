// SPDX-License-Identifier: Apache-2.0
// Writes a planned file as seekable Zstandard data (.tflite.zst): each MiB of the file is compressed to a separate
// frame. Frames are written from the front to the end, because the size of a compressed frame is unknown in advance.
//
// The traps: the bytes must not depend on the number of threads, so frame boundaries depend on the plan only, and
// frames are written in order; the decoder's window is a frame, so a reader needs at most a MiB for it; the table at
// the end takes four bytes of memory per frame.
#pragma once

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/out_file.h"

namespace lowtide::emit {

inline constexpr uint64_t kFrameBytes = uint64_t{1} << 20;

// The largest possible size of the compressed file.
uint64_t compressed_bound(const Plan& plan);
// The smallest budget for write_compressed.
uint64_t least_for_compressing(const Plan& plan, int level);
// Returns the size of the written file. Throws Error(kBudget) when a thread's buffers do not fit, and the errors of
// reading weights and writing.
uint64_t write_compressed(const Plan& plan, int level, stream::OutFile& out, stream::Budget& budget,
                          const WriteOptions& options);

}  // namespace lowtide::emit
