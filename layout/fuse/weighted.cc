// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/weighted.h"

namespace lowtide::layout {

using core::Kind;

std::optional<Weighted> weighted(const core::Op& op, int weights_rank) {
  switch (op.kind) {
    case Kind::kConv2d:
      return Weighted{1, 2, 0, std::get<core::Conv2dOptions>(op.options).activation};
    case Kind::kDepthwiseConv2d:
      return Weighted{1, 2, 3, std::get<core::Conv2dOptions>(op.options).activation};
    case Kind::kFullyConnected:
      return Weighted{1, 2, 0, std::get<core::FullyConnectedOptions>(op.options).activation};
    case Kind::kTransposeConv:
      return Weighted{1, 3, 0, std::get<core::TransposeConvOptions>(op.options).activation};
    case Kind::kConv3d:
      return Weighted{1, 2, weights_rank - 1, std::get<core::Conv3dOptions>(op.options).activation};
    default:
      return std::nullopt;
  }
}

}  // namespace lowtide::layout
