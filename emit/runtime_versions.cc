// SPDX-License-Identifier: Apache-2.0
#include "emit/runtime_versions.h"

#include <array>
#include <charconv>

namespace lowtide::emit {
namespace {

using core::Kind;

// "2.13.0" as numbers, so that 2.9.0 is older than 2.13.0.
std::array<int, 3> numbers(std::string_view version) {
  std::array<int, 3> out{};
  const char* at = version.data();
  const char* end = at + version.size();
  for (int& number : out) {
    at = std::from_chars(at, end, number).ptr;
    if (at < end) ++at;
  }
  return out;
}

// The runtimes of versions 1, 2, ... of each kernel.
struct Row {
  Kind kind;
  std::array<std::string_view, 14> runtimes;
};
constexpr Row kRows[] = {
    Row{Kind::kAdd, {{"1.5.0", "1.14.0", "2.4.0", "2.6.0", "2.13.0", "2.23.0"}}},
    Row{Kind::kAveragePool2d, {{"1.5.0", "1.14.0", "2.3.0"}}},
    Row{Kind::kConcatenation, {{"1.5.0", "1.14.0", "2.3.0", "2.14.0", "2.21.0", "2.23.0", "2.23.0"}}},
    Row{Kind::kConv2d, {{"1.5.0", "1.14.0", "1.14.0", "2.3.0", "2.4.0", "2.9.0", "2.11.0", "2.15.0"}}},
    Row{Kind::kDepthwiseConv2d, {{"1.5.0", "1.12.0", "1.14.0", "2.2.0", "2.3.0", "2.3.0", "2.11.0"}}},
    Row{Kind::kDepthToSpace, {{"2.1.0", "2.5.0"}}},
    Row{Kind::kDequantize, {{"1.13.1", "1.14.0", "1.15.0", "2.2.0", "2.7.0", "2.18.0", "2.21.0", "2.22.0", "2.23.0"}}},
    Row{Kind::kEmbeddingLookup, {{"1.13.0", "1.14.0", "1.14.0", "2.18.0", "2.21.0"}}},
    Row{Kind::kFloor, {{"1.9.0"}}},
    Row{Kind::kFullyConnected,
        {{"1.5.0", "1.10.0", "1.14.0", "1.14.0", "2.0.0", "2.1.0", "2.3.0", "2.3.0", "2.3.0", "2.11.0", "2.15.0",
          "2.17.0", "2.18.0", "2.21.0"}}},
    Row{Kind::kL2Normalization, {{"1.5.0", "1.14.0"}}},
    Row{Kind::kL2Pool2d, {{"1.5.0"}}},
    Row{Kind::kLocalResponseNormalization, {{"1.5.0"}}},
    Row{Kind::kLogistic, {{"1.14.0", "1.14.0", "2.3.0"}}},
    Row{Kind::kMaxPool2d, {{"1.5.0", "1.14.0", "2.3.0"}}},
    Row{Kind::kMul, {{"1.5.0", "1.14.0", "1.15.0", "2.3.0", "2.6.0", "2.11.0", "2.13.0", "2.23.0"}}},
    Row{Kind::kRelu, {{"1.5.0", "2.1.0", "2.5.0"}}},
    Row{Kind::kReluN1To1, {{"1.5.0"}}},
    Row{Kind::kRelu6, {{"1.5.0", "1.14.0", "2.5.0"}}},
    Row{Kind::kReshape, {{"1.5.0"}}},
    Row{Kind::kResizeBilinear, {{"1.7.0", "1.14.0", "2.2.0", "2.5.0"}}},
    Row{Kind::kSoftmax, {{"1.5.0", "1.14.0", "2.3.0", "2.23.0"}}},
    Row{Kind::kSpaceToDepth, {{"1.5.0", "1.14.0"}}},
    Row{Kind::kTanh, {{"1.14.0", "1.14.0", "2.3.0"}}},
    Row{Kind::kPad, {{"1.5.0", "1.14.0", "2.4.0", "2.6.0", "2.20.0", "2.23.0"}}},
    Row{Kind::kUnidirectionalSequenceRnn, {{"1.14.0", "1.14.0", "2.3.0"}}},
    Row{Kind::kGather, {{"1.6.0", "1.14.0", "1.15.0", "2.4.0", "2.5.0", "2.13.0", "2.15.0", "2.23.0"}}},
    Row{Kind::kBatchToSpaceNd, {{"1.6.0", "1.14.0", "2.3.0", "2.12.0"}}},
    Row{Kind::kSpaceToBatchNd, {{"1.6.0", "1.14.0", "2.3.0", "2.12.0"}}},
    Row{Kind::kTranspose, {{"1.6.0", "1.14.0", "1.15.0", "2.3.0", "2.4.0", "2.12.0", "2.14.4", "2.22.0", "2.23.0"}}},
    Row{Kind::kMean, {{"1.6.0", "1.14.0", "2.4.0"}}},
    Row{Kind::kSub, {{"1.6.0", "1.14.0", "2.3.0", "2.4.0", "2.4.0"}}},
    Row{Kind::kDiv, {{"1.6.0", "2.3.0"}}},
    Row{Kind::kSqueeze, {{"1.6.0", "2.5.0"}}},
    Row{Kind::kUnidirectionalSequenceLstm, {{"1.13.1", "1.14.0", "2.3.0", "2.12.0"}}},
    Row{Kind::kStridedSlice, {{"1.6.0", "1.14.0", "2.1.0", "2.2.0", "2.5.0", "2.6.0", "2.14.0", "2.14.0"}}},
    Row{Kind::kBidirectionalSequenceRnn, {{"1.14.0", "1.14.0", "2.3.0"}}},
    Row{Kind::kExp, {{"1.7.0", "2.12.0"}}},
    Row{Kind::kTopkV2, {{"1.7.0", "1.14.0", "2.13.0"}}},
    Row{Kind::kSplit, {{"1.5.0", "1.14.0", "1.14.0", "2.3.0", "2.23.0"}}},
    Row{Kind::kLogSoftmax, {{"1.14.0", "1.14.0"}}},
    Row{Kind::kBidirectionalSequenceLstm, {{"1.14.0", "1.14.0", "1.14.0"}}},
    Row{Kind::kCast, {{"1.5.0", "2.7.0", "2.8.0", "2.9.0", "2.12.0", "2.15.0", "2.17.0", "2.21.0", "2.23.0"}}},
    Row{Kind::kPrelu, {{"1.8.0"}}},
    Row{Kind::kMaximum, {{"1.14.0", "1.14.0", "2.3.0", "2.3.0"}}},
    Row{Kind::kArgMax, {{"1.9.0", "1.14.0", "2.9.0"}}},
    Row{Kind::kMinimum, {{"1.14.0", "1.14.0", "2.3.0", "2.3.0"}}},
    Row{Kind::kLess, {{"1.14.0", "1.14.0", "2.13.0"}}},
    Row{Kind::kNeg, {{"1.9.0"}}},
    Row{Kind::kPadv2, {{"1.9.0", "1.14.0", "2.4.0", "2.6.0", "2.20.0", "2.23.0"}}},
    Row{Kind::kGreater, {{"1.14.0", "1.14.0"}}},
    Row{Kind::kGreaterEqual, {{"1.14.0", "1.14.0", "2.13.0"}}},
    Row{Kind::kLessEqual, {{"1.14.0", "1.14.0"}}},
    Row{Kind::kSelect, {{"1.14.0", "1.14.0", "2.12.0", "2.12.0"}}},
    Row{Kind::kSlice, {{"1.14.0", "1.14.0", "1.14.0", "2.4.0", "2.5.0", "2.14.0", "2.21.0", "2.23.0"}}},
    Row{Kind::kSin, {{"1.9.0", "2.23.0"}}},
    Row{Kind::kTransposeConv, {{"1.9.0", "2.2.0", "2.3.0", "2.13.0", "2.15.0"}}},
    Row{Kind::kSparseToDense, {{"1.9.0", "1.14.0", "1.15.0"}}},
    Row{Kind::kTile, {{"1.10.1", "2.2.0", "2.8.0"}}},
    Row{Kind::kExpandDims, {{"1.10.0"}}},
    Row{Kind::kEqual, {{"1.14.0", "1.14.0", "2.3.0", "2.13.0", "2.21.0"}}},
    Row{Kind::kNotEqual, {{"1.14.0", "1.14.0", "2.3.0", "2.21.0"}}},
    Row{Kind::kLog, {{"1.14.0", "2.15.0"}}},
    Row{Kind::kSum, {{"1.10.0", "1.15.0"}}},
    Row{Kind::kSqrt, {{"1.10.0", "2.21.0"}}},
    Row{Kind::kRsqrt, {{"1.10.0", "2.5.0", "2.15.0"}}},
    Row{Kind::kShape, {{"1.10.0"}}},
    Row{Kind::kPow, {{"1.10.0"}}},
    Row{Kind::kArgMin, {{"1.9.0", "1.14.0", "2.9.0"}}},
    Row{Kind::kReduceProd, {{"1.11.0", "2.6.0"}}},
    Row{Kind::kReduceMax, {{"1.11.0", "1.14.0", "2.5.0"}}},
    Row{Kind::kPack, {{"1.11.0", "1.14.0", "2.3.0", "2.13.0", "2.23.0"}}},
    Row{Kind::kLogicalOr, {{"1.11.0"}}},
    Row{Kind::kOneHot, {{"1.11.0"}}},
    Row{Kind::kLogicalAnd, {{"1.11.0"}}},
    Row{Kind::kLogicalNot, {{"1.11.0"}}},
    Row{Kind::kUnpack, {{"1.11.0", "1.14.0", "2.2.0", "2.3.0", "2.22.0", "2.23.0"}}},
    Row{Kind::kReduceMin, {{"1.11.0", "1.14.0", "2.5.0"}}},
    Row{Kind::kFloorDiv, {{"1.14.0", "1.14.0", "2.13.0"}}},
    Row{Kind::kReduceAny, {{"1.11.0"}}},
    Row{Kind::kSquare, {{"1.12.0"}}},
    Row{Kind::kZerosLike, {{"1.12.0"}}},
    Row{Kind::kFill, {{"1.13.0", "2.3.0", "2.5.0", "2.12.0", "2.23.0"}}},
    Row{Kind::kFloorMod, {{"1.13.0", "2.13.0"}}},
    Row{Kind::kRange, {{"1.13.0", "2.14.0"}}},
    Row{Kind::kResizeNearestNeighbor, {{"1.13.1", "1.14.0", "2.3.0", "2.4.0"}}},
    Row{Kind::kLeakyRelu, {{"1.13.1", "2.3.0"}}},
    Row{Kind::kSquaredDifference, {{"1.13.1", "2.5.0"}}},
    Row{Kind::kMirrorPad, {{"1.13.1", "2.3.0", "2.12.0"}}},
    Row{Kind::kAbs, {{"1.13.0", "2.4.0", "2.5.0", "2.6.0", "2.12.0"}}},
    Row{Kind::kSplitV, {{"1.13.1", "2.3.0", "2.23.0"}}},
    Row{Kind::kUnique, {{"1.14.0"}}},
    Row{Kind::kCeil, {{"1.14.0"}}},
    Row{Kind::kReverseV2, {{"1.14.0", "2.2.0", "2.5.0", "2.23.0"}}},
    Row{Kind::kAddN, {{"1.14.0"}}},
    Row{Kind::kGatherNd, {{"1.14.0", "2.3.0", "2.5.0", "2.13.0", "2.16.0", "2.23.0"}}},
    Row{Kind::kCos, {{"1.14.0", "2.23.0"}}},
    Row{Kind::kWhere, {{"1.14.0", "2.8.0"}}},
    Row{Kind::kRank, {{"1.14.0"}}},
    Row{Kind::kElu, {{"1.14.0"}}},
    Row{Kind::kReverseSequence, {{"1.14.0"}}},
    Row{Kind::kMatrixDiag, {{"1.14.0"}}},
    Row{Kind::kQuantize, {{"1.14.0", "1.15.0", "2.7.0", "2.21.0", "2.21.0", "2.21.0"}}},
    Row{Kind::kMatrixSetDiag, {{"1.14.0"}}},
    Row{Kind::kRound, {{"1.14.0"}}},
    Row{Kind::kHardSwish, {{"1.15.0"}}},
    Row{Kind::kIf, {{"1.15.0"}}},
    Row{Kind::kWhile, {{"1.15.0"}}},
    Row{Kind::kNonMaxSuppressionV4, {{"2.1.0"}}},
    Row{Kind::kNonMaxSuppressionV5, {{"2.1.0"}}},
    Row{Kind::kScatterNd, {{"2.1.0"}}},
    Row{Kind::kSelectV2, {{"2.2.0", "2.12.0"}}},
    Row{Kind::kBatchMatmul, {{"2.3.0", "2.3.0", "2.4.0", "2.5.0"}}},
    Row{Kind::kCumsum, {{"2.4.0"}}},
    Row{Kind::kBroadcastTo, {{"", "2.5.0", "2.5.0", "2.23.0"}}},
    Row{Kind::kConv3d, {{"2.5.0"}}},
    Row{Kind::kReduceAll, {{"2.6.0"}}},
    Row{Kind::kConv3dTranspose, {{"2.6.0"}}},
    Row{Kind::kBroadcastArgs, {{"2.6.0"}}},
    Row{Kind::kGelu, {{"2.9.0", "2.9.0", "2.23.0"}}},
    Row{Kind::kDynamicUpdateSlice, {{"2.9.0", "2.17.0", "2.19.0", "2.20.0", "2.21.0", "2.22.0"}}},
    Row{Kind::kRelu0To1, {{"2.10.0"}}},
    Row{Kind::kAtan2, {{"2.10.0"}}},
    Row{Kind::kSign, {{"2.11.0", "2.12.0"}}},
    Row{Kind::kBitcast, {{"2.13.0"}}},
    Row{Kind::kBitwiseXor, {{"2.13.0"}}},
    Row{Kind::kRightShift, {{"2.13.0"}}},
    Row{Kind::kStablehloAdd, {{"2.16.0"}}},
    Row{Kind::kStablehloMultiply, {{"2.16.0"}}},
    Row{Kind::kStablehloMaximum, {{"2.16.0"}}},
    Row{Kind::kStablehloAnd, {{"2.17.0"}}},
    Row{Kind::kStablehloMinimum, {{"2.16.0"}}},
    Row{Kind::kStablehloScatter, {{"2.15.0"}}},
    Row{Kind::kStablehloPad, {{"2.16.0"}}},
    Row{Kind::kStablehloReduceWindow, {{"2.16.0"}}},
    Row{Kind::kStablehloGather, {{"2.16.0"}}},
    Row{Kind::kDilate, {{"2.15.0"}}},
    Row{Kind::kStablehloRngBitGenerator, {{"2.15.0"}}},
    Row{Kind::kReduceWindow, {{"2.15.0"}}},
    Row{Kind::kStablehloComposite, {{"2.17.0"}}},
    Row{Kind::kStablehloShiftLeft, {{"2.17.0"}}},
    Row{Kind::kStablehloCbrt, {{"2.17.0"}}},
    Row{Kind::kStablehloCase, {{"2.17.0"}}},
};

}  // namespace

std::string_view first_runtime(Kind kind, int version) {
  for (const Row& row : kRows)
    if (row.kind == kind && version >= 1 && static_cast<size_t>(version) <= row.runtimes.size())
      return row.runtimes[static_cast<size_t>(version - 1)];
  return {};
}

std::string_view newer_runtime(std::string_view a, std::string_view b) { return numbers(a) < numbers(b) ? b : a; }

}  // namespace lowtide::emit
