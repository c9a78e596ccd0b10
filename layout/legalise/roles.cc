// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/roles.h"

namespace lowtide::layout {

using core::Kind;

Roles roles(Kind kind) {
  constexpr bool kNarrow = false;
  switch (kind) {
    case Kind::kEqual:
    case Kind::kNotEqual:
    case Kind::kLess:
    case Kind::kLessEqual:
    case Kind::kGreater:
    case Kind::kGreaterEqual:
    case Kind::kWhere:
      return {.data_out = 0};
    case Kind::kSelect:
    case Kind::kSelectV2:
      return {.data_in = 0b110};
    case Kind::kArgMax:
    case Kind::kArgMin:
      return {.data_in = 0b1, .index_in = 0b10, .data_out = 0};
    case Kind::kTopkV2:
      return {.data_in = 0b1, .index_in = 0b10, .data_out = 0b1, .wide_indices = kNarrow};
    case Kind::kSum:
    case Kind::kMean:
    case Kind::kReduceMax:
    case Kind::kReduceMin:
    case Kind::kReduceProd:
    case Kind::kReduceAny:
    case Kind::kReduceAll:
    case Kind::kCumsum:
    case Kind::kReverseV2:
    case Kind::kTranspose:
    case Kind::kResizeBilinear:
    case Kind::kResizeNearestNeighbor:
      return {.data_in = 0b1, .index_in = 0b10, .wide_indices = kNarrow};
    case Kind::kGather:
    case Kind::kGatherNd:
    case Kind::kReshape:
    case Kind::kExpandDims:
    case Kind::kTile:
    case Kind::kBroadcastTo:
    case Kind::kPad:
    case Kind::kMirrorPad:
    case Kind::kReverseSequence:
      return {.data_in = 0b1, .index_in = 0b10};
    case Kind::kPadv2:
      return {.data_in = 0b101, .index_in = 0b10};
    case Kind::kSpaceToBatchNd:
    case Kind::kBatchToSpaceNd:
      return {.data_in = 0b1, .index_in = 0b110, .wide_indices = kNarrow};
    case Kind::kSlice:
      return {.data_in = 0b1, .index_in = 0b110};
    case Kind::kStridedSlice:
      return {.data_in = 0b1, .index_in = 0b1110, .wide_indices = kNarrow};
    case Kind::kSplit:
      return {.data_in = 0b10, .index_in = 0b1};
    case Kind::kSplitV:
      return {.data_in = 0b1, .index_in = 0b110};
    case Kind::kFill:
      return {.data_in = 0b10, .index_in = 0b1};
    case Kind::kOneHot:
      return {.data_in = 0b1100, .index_in = 0b11};
    case Kind::kScatterNd:
      return {.data_in = 0b10, .index_in = 0b101, .wide_indices = kNarrow};
    case Kind::kTransposeConv:
    case Kind::kConv3dTranspose:
      return {.data_in = 0b1110, .index_in = 0b1, .wide_indices = kNarrow};
    case Kind::kDynamicUpdateSlice:
      return {.data_in = 0b11, .index_in = 0b100};
    case Kind::kEmbeddingLookup:
      return {.data_in = 0b10, .index_in = 0b1, .wide_indices = kNarrow};
    default:
      return {};
  }
}

bool only_moves(Kind kind) {
  switch (kind) {
    case Kind::kSelect:
    case Kind::kSelectV2:
    case Kind::kGather:
    case Kind::kGatherNd:
    case Kind::kReshape:
    case Kind::kSqueeze:
    case Kind::kExpandDims:
    case Kind::kTile:
    case Kind::kBroadcastTo:
    case Kind::kPad:
    case Kind::kPadv2:
    case Kind::kMirrorPad:
    case Kind::kReverseSequence:
    case Kind::kReverseV2:
    case Kind::kTranspose:
    case Kind::kResizeNearestNeighbor:
    case Kind::kSpaceToBatchNd:
    case Kind::kBatchToSpaceNd:
    case Kind::kSpaceToDepth:
    case Kind::kDepthToSpace:
    case Kind::kSlice:
    case Kind::kStridedSlice:
    case Kind::kSplit:
    case Kind::kSplitV:
    case Kind::kFill:
    case Kind::kOneHot:
    case Kind::kPack:
    case Kind::kUnpack:
    case Kind::kConcatenation:
    case Kind::kDynamicUpdateSlice:
    case Kind::kEmbeddingLookup:
    case Kind::kMatrixDiag:
    case Kind::kMatrixSetDiag:
    case Kind::kDilate:
    case Kind::kZerosLike:
      return true;
    default:
      return false;
  }
}

}  // namespace lowtide::layout
