// SPDX-License-Identifier: Apache-2.0
// The options of `lowtide partition`.
#pragma once

#include <CLI/App.hpp>

#include "tools/lowtide/partition_command.h"

namespace lowtide::tools {

CLI::App* add_partition(CLI::App& app, PartitionCommand& options);

}  // namespace lowtide::tools
