// SPDX-License-Identifier: Apache-2.0
// DepthToSpace, SpaceToDepth. TFLite orders the channels of a block as (row, column, channel), as do ONNX's mode DCR
// and SpaceToDepth. For mode CRD (channel, row, column: PyTorch's pixel shuffle) the channels are permuted first.
#include <fmt/format.h>

#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

int read_block(Lowering& lo, Val x) {
  if (lo.rank(x) != 4) lo.malformed(fmt::format("the input must have rank 4; it has rank {}", lo.rank(x)));
  const int block = to_int(lo, lo.need_attr_i("blocksize"), "blocksize");
  if (block < 1 || block > (1 << 15))
    lo.malformed(fmt::format("attribute 'blocksize' must be from 1 to {}; it is {}", 1 << 15, block));
  return block;
}

}  // namespace

void lower_depth_to_space(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const int64_t block = read_block(lo, x);
  const std::string mode = lo.attr_s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    lo.malformed(fmt::format("attribute 'mode' must be 'DCR' or 'CRD'; it is '{}'", mode));
  if (block == 1) return lo.output(0, x);
  x = to_image(lo, x);
  if (mode == "CRD") {
    const int64_t channels = lo.need_static(lo.b.dim(x, 3), "the number of channels");
    const int64_t area = block * block, out = channels / area;
    if (channels % area != 0)
      lo.malformed(fmt::format("the number of channels must be a multiple of {}; it is {}", area, channels));
    // Channel a of block b of the result is channel b of block a.
    Val order = b.constant(stream::recipe::iota(0, 1, DType::kInt32, channels));
    order = b.reshape(b.transpose(b.reshape(order, {out, area}), {1, 0}), {channels});
    if (out > 1) x = b.gather(x, order, 3);
  }
  lo.output(0, from_image(lo, b.depth_to_space(x, static_cast<int>(block)), 2));
}

void lower_space_to_depth(Lowering& lo) {
  Val x = lo.input(0);
  const int block = read_block(lo, x);
  if (block == 1) return lo.output(0, x);
  lo.output(0, from_image(lo, lo.b.space_to_depth(to_image(lo, x), block), 2));
}

}  // namespace lowtide::layout
