// SPDX-License-Identifier: Apache-2.0
// DepthToSpace, SpaceToDepth. TFLite orders the channels of a block as (row, column, channel), which is ONNX's DCR and
// SpaceToDepth. CRD (channel, row, column: PyTorch's pixel shuffle) needs its channels put into that order before.
#include <fmt/format.h>

#include "layout/lower/window.h"

namespace lowtide::layout {
namespace {

int read_block(Lowering& lo, Val x) {
  if (lo.rank(x) != 4) lo.malformed(fmt::format("the input has rank {}, not 4", lo.rank(x)));
  const int block = to_int(lo, lo.need_attr_i("blocksize"), "blocksize");
  if (block < 1 || block > (1 << 15)) lo.malformed(fmt::format("blocksize {} is out of range", block));
  return block;
}

}  // namespace

void lower_depth_to_space(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const int64_t block = read_block(lo, x);
  const std::string mode = lo.attr_s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") lo.malformed(fmt::format("mode '{}' is unknown", mode));
  if (block == 1) return lo.output(0, x);
  x = channels_last(lo, x);
  if (mode == "CRD") {
    const int64_t channels = lo.need_static(lo.b.dim(x, 3), "the number of channels");
    const int64_t area = block * block, out = channels / area;
    if (channels % area != 0) lo.malformed(fmt::format("{} channels are no multiple of {}", channels, area));
    std::vector<int64_t> order;
    for (int64_t i = 0; i < out * area; ++i) order.push_back((i % out) * area + i / out);
    if (out > 1) x = b.gather(x, b.i32(order), 3);
  }
  lo.output(0, channels_first(lo, b.depth_to_space(x, static_cast<int>(block)), 2));
}

void lower_space_to_depth(Lowering& lo) {
  Val x = lo.input(0);
  const int block = read_block(lo, x);
  if (block == 1) return lo.output(0, x);
  lo.output(0, channels_first(lo, lo.b.space_to_depth(channels_last(lo, x), block), 2));
}

}  // namespace lowtide::layout
