// SPDX-License-Identifier: Apache-2.0
// Which types and ranks of data the runtime's kernels take and compute correctly, measured (tools/probe_kernels.py).
// The trap: a kernel does not refuse all that it cannot do. Some types run and give wrong numbers, some end the
// process, so what is not listed here must not be written. docs/kernels.md has what does not fit in a row.
#pragma once

#include <cstdint>

#include "layout/core/graph.h"
#include "stream/dtype.h"

namespace lowtide::core {

struct KernelLimits {
  uint32_t dtypes = 0;  // bit i: DType i. The quantized side's for QUANTIZE and DEQUANTIZE, the values' for GATHER, ...
  uint32_t quantized = 0;  // as `dtypes`, for data with scales, whatever the scales of operands and result
  uint32_t one_scale = 0;  // the same where operands and result share one scale and zero point
  int min_rank = 0;        // 1 where a kernel refuses scalars
  int max_rank = 0;        // 8: the highest that was tried
  int broadcast_rank =
      0;  // two-way broadcasting is right up to this rank of the result; 0: operands must have one shape

  bool takes(stream::DType dtype) const { return (dtypes >> static_cast<unsigned>(dtype) & 1U) != 0; }
};

// Null for operators that were not measured (control flow, recurrent layers) or have no kernel.
const KernelLimits* kernel_limits(Kind kind);

// Whether the kernel is right for data of this type; false where kernel_limits() is null. Plain numbers: a quantized
// tensor is not meant.
bool kernel_takes(Kind kind, stream::DType dtype);

// Whether an op that moves elements keeps all their bits: false where no kernel takes 64-bit numbers, which legalise
// would then narrow to 32 bits or refuse. Ask it before an op is replaced by one of another kind.
bool keeps_bits(Kind kind, stream::DType dtype);

}  // namespace lowtide::core
