// SPDX-License-Identifier: Apache-2.0
// --shape, --layout, --dim, --const, --outputs: from the text of the command line to the edits of a model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "layout/convert.h"
#include "stream/onnx/model.h"
#include "tools/lowtide/command_line.h"

namespace lowtide::tools {

// "NAME=VALUE" in two; a name may have '=' itself, a value has none. Throws Error(kUsage).
std::pair<std::string, std::string> name_and_value(const std::string& option, const std::string& text);

// The shapes and axis orders of inputs and outputs. Throws Error(kUsage).
void set_interface(const ConversionOptions& options, layout::ConvertOptions& out);

// Fixes dimensions, freezes inputs and chooses outputs, as the options say. `shapes` are those of --shape. Throws
// Error(kUsage) where the options do not fit the model or contradict each other.
void edit_interface(const ConversionOptions& options, const std::map<std::string, core::Shape>& shapes,
                    onnx::Model& model);

// What is written into the model's metadata; nullopt where no option asks for metadata. Called after edit_interface.
// Throws Error(kUsage), and the errors of reading the label file.
std::optional<core::ModelNotes> model_notes(const ConversionOptions& options, const onnx::Model& model);

}  // namespace lowtide::tools
