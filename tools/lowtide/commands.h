// SPDX-License-Identifier: Apache-2.0
// The commands of the program, one file each. They throw stream::Error, and emit::Refusal for nodes that cannot be
// converted.
#pragma once

#include "tools/lowtide/command_line.h"

namespace lowtide::tools {

void convert_model(const ConvertCommand& command);
void check_model(const CheckCommand& command);
void inspect_model(const InspectCommand& command);
void make_test_model(const MakeModelCommand& command);
void list_operators(const OpsCommand& command);
void examine_machine(const DoctorCommand& command);
void generate_docs(const DocsCommand& command);

}  // namespace lowtide::tools
