// SPDX-License-Identifier: Apache-2.0
// The commands and options of the program as plain data: what manual pages and completions are printed from.
// command_line.cc fills it from the parser itself, so that there is no second list.
#pragma once

#include <string>
#include <vector>

namespace lowtide::tools {

struct OptionDescription {
  std::string short_name, long_name;  // "-o", "--output"; both empty for a positional argument
  std::string argument;               // name of a positional argument: "MODEL"
  std::string type;                   // what the value looks like: "FILE", "FOLDER", "SIZE", "N", ...; empty for a flag
  std::vector<std::string> choices;   // all values, where there is a list
  std::string text, group;
  bool is_required = false, is_repeatable = false;

  bool is_positional() const { return !argument.empty(); }
  bool takes_value() const { return !type.empty(); }
};

struct CommandDescription {
  std::string name;  // "convert"; empty for the program itself
  std::string usage, text;
  std::vector<OptionDescription> options;  // in the order of --help
  std::string notes;                       // may be empty
  std::vector<std::string> examples;       // a line each
};

struct ProgramDescription {
  std::string version;
  CommandDescription program;
  std::vector<CommandDescription> commands;
};

}  // namespace lowtide::tools
