// SPDX-License-Identifier: Apache-2.0
// The opset in which an operator of ai.onnx, or one of its attributes, appeared. Files in circulation use some of them
// under an older opset; ONNX Runtime accepts many of these, and so does the lowering, with a note.
#pragma once

#include <cstdint>
#include <string_view>

namespace lowtide::layout {

// `attribute` empty: of the operator itself. 1 for what exists since the first opset and for what is not listed.
int64_t since_version(std::string_view op, std::string_view attribute = {});

}  // namespace lowtide::layout
