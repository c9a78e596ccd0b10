// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/parser_errors.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "stream/nearest_name.h"
#include "tools/lowtide/help_text.h"
#include "tools/lowtide/usage_error.h"

namespace lowtide::tools {
namespace {

// The commands that the Python package adds to the program's.
const std::vector<std::string>& python_commands() {
  static const std::vector<std::string> kNames = {"calibrate", "run", "verify"};
  return kNames;
}

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    out.insert(out.end(), option->get_lnames().begin(), option->get_lnames().end());
  return out;
}

std::string help_command(const CLI::App& command) {
  return command.get_parent() == nullptr ? "lowtide --help" : fmt::format("lowtide {} --help", command.get_name());
}

// `place` is the program or the command; `command` the command, or the program where none is given.
[[noreturn]] void unknown_option(const std::string& argument, const CLI::App& place, const CLI::App& command) {
  const std::string name = argument.substr(0, argument.find('='));
  if (&place != &command && command.get_option_no_throw(name) != nullptr)
    usage_error(fmt::format("option '{}' must follow the command: lowtide {} {}", name, command.get_name(), name));
  const std::string nearest =
      stream::nearest_name(name.substr(std::min(name.find_first_not_of('-'), name.size())), long_names(place));
  usage_error(fmt::format("unknown option '{}'{}", name,
                          nearest.empty() ? fmt::format(" (see {})", help_command(place))
                                          : fmt::format("; did you mean '--{}'?", nearest)));
}

[[noreturn]] void unexpected_argument(const std::string& argument, const CLI::App& command) {
  const bool has_output = command.get_option_no_throw("--output") != nullptr;
  usage_error(fmt::format("unexpected argument '{}'{}", argument,
                          has_output ? fmt::format("; the output is given as -o {}", argument)
                                     : fmt::format(" (usage: {})", usage_line(command))));
}

[[noreturn]] void missing_argument(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    usage_error(fmt::format(
        "{} is missing (usage: {})",
        option->get_positional() ? upper_case(option->get_name()) : fmt::format("option '{}'", option->get_name()),
        usage_line(command)));
  }
  usage_error(fmt::format("a command is missing (see {})", help_command(command)));
}

}  // namespace

bool is_option(const std::string& argument) { return argument.size() > 1 && argument[0] == '-' && argument != "--"; }

void explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  for (const CLI::App* place : {&app, &command})
    for (const std::string& argument : place->remaining())
      if (is_option(argument)) unknown_option(argument, *place, command);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) missing_argument(command);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const CLI::App* place : {&command, &app})
      for (const std::string& argument : place->remaining()) unexpected_argument(argument, *place);
  }
  const std::string text = error.what(), name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = name.starts_with("-") ? command.get_option_no_throw(name) : nullptr;
  if (option != nullptr && dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (option->count() > 1) usage_error(fmt::format("option '{}' is given more than once", name));
    usage_error(fmt::format("option '{}' needs a value: {} {}", name, name, option->get_type_name()));
  }
  if (option != nullptr && dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr)
    usage_error(fmt::format("options '{}' and '{}' exclude each other", name, text.substr(text.rfind(' ') + 1)));
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) usage_error(text);  // of option_values.h
  usage_error(fmt::format("{} (see {})", text, help_command(command)));
}

void check_command_name(const std::vector<std::string>& commands, const std::string& hidden,
                        const std::vector<std::string>& arguments) {
  if (arguments.empty())
    usage_error(fmt::format("a command is missing (commands: {}; see lowtide --help)", fmt::join(commands, ", ")));
  const std::string& name = arguments[0];
  if (is_option(name) || name == hidden) return;
  if (std::find(commands.begin(), commands.end(), name) != commands.end()) return;
  if (std::find(python_commands().begin(), python_commands().end(), name) != python_commands().end())
    usage_error(fmt::format(
        "'{}' is a command of the Python package, which has the runtimes: pip install 'lowtide[run]'", name));
  if (name.ends_with(".onnx") || name.ends_with(".onnx.zst"))
    usage_error(fmt::format("unknown command '{}'; to convert a model: lowtide convert {}", name, name));
  std::vector<std::string> names = commands;
  names.insert(names.end(), python_commands().begin(), python_commands().end());
  names.emplace_back("help");
  const std::string meant = stream::did_you_mean(name, names);
  usage_error(fmt::format("unknown command '{}'{}", name,
                          meant.empty() ? fmt::format(" (commands: {}; of the Python package: {})",
                                                      fmt::join(commands, ", "), fmt::join(python_commands(), ", "))
                                        : meant));
}

void check_dashes(const std::vector<std::string>& arguments, const CLI::App& command) {
  constexpr size_t kShortest = 4;  // "-v", "-qv"
  for (const std::string& argument : arguments) {
    if (argument == "--") return;
    const bool is_one_dash = argument.size() >= kShortest && argument[0] == '-' && argument[1] != '-';
    if (!is_one_dash || argument[1] == 'o') continue;
    if (!stream::nearest_name(argument.substr(1, argument.find('=') - 1), long_names(command)).empty())
      unknown_option(argument, command, command);
  }
}

void check_flags(const std::vector<std::string>& arguments, const CLI::App& command) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return;
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == argument.npos) continue;
    const std::string name = argument.substr(0, equals);
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option != nullptr && is_flag(*option)) usage_error(fmt::format("option '{}' takes no value", name));
  }
}

}  // namespace lowtide::tools
