// SPDX-License-Identifier: Apache-2.0
// The commands of the program, one file each. Each adds itself to the command line; its callback does the work and
// throws lowtide::stream::Error.
#pragma once

#include <CLI/App.hpp>

// Thrown when the error was printed already: ends the program with this status.
struct Exit {
  int status;
};

void add_convert(CLI::App& app);
void add_check(CLI::App& app);
void add_inspect(CLI::App& app);
void add_make_model(CLI::App& app);
