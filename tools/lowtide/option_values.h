// SPDX-License-Identifier: Apache-2.0
// What values of options have to look like, where several commands agree.
#pragma once

#include <CLI/Option.hpp>

// A size such as 64M, more than 0; K, M, G and T are powers of 1024.
CLI::Option* size(CLI::Option* option);
// A name that is not empty, as an unset variable of a script would make it.
CLI::Option* file_name(CLI::Option* option);
