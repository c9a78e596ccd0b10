// SPDX-License-Identifier: Apache-2.0
// The commands of the program, one file each. They throw stream::Error, and emit::Refusal for nodes that cannot be
// converted.
#pragma once

#include <functional>

#include "tools/lowtide/command_line.h"

namespace lowtide::tools {

// Of several models, those that fail are told by `failed`, which returns the exit status of the exception in flight;
// the others are converted. Returns the first such status, or 0. A single model's error is thrown.
int convert_models(const ConvertCommand& command, const std::function<int()>& failed);
void merge(const MergeCommand& command);
void check_model(const CheckCommand& command);
void extract_model(const ExtractCommand& command);
void partition_model(const PartitionCommand& command);
void inspect_model(const InspectCommand& command);
void make_test_model(const MakeModelCommand& command);
void list_operators(const OpsCommand& command);
void examine_machine(const DoctorCommand& command);
void generate_docs(const DocsCommand& command);

}  // namespace lowtide::tools
