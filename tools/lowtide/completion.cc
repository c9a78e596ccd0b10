// SPDX-License-Identifier: Apache-2.0
// The trap: what stands in a description is text of ours for people; each shell reads other letters of it as its own.
#include "tools/lowtide/completion.h"

#include <fmt/format.h>

namespace lowtide::tools {
namespace {

enum class Values { kNone, kChoices, kFiles, kFolders, kOther };

Values values_of_option(const OptionDescription& option) {
  if (!option.takes_value()) return Values::kNone;
  if (!option.choices.empty()) return Values::kChoices;
  if (option.type == "FILE") return Values::kFiles;
  if (option.type == "FOLDER") return Values::kFolders;
  return Values::kOther;
}

std::string replaced(std::string text, std::string_view letters, std::string_view before) {
  for (size_t i = 0; i < text.size(); ++i)
    if (letters.find(text[i]) != letters.npos) {
      text.insert(i, before);
      i += before.size();
    }
  return text;
}

// The first line of a description, without what is in parentheses at its end.
std::string first_words(const std::string& text) {
  std::string out = text.substr(0, text.find_first_of("\n;:"));
  if (const size_t at = out.find(" ("); at != out.npos) out.resize(at);
  return out;
}

std::vector<std::string> names_of(const OptionDescription& option) {
  std::vector<std::string> out;
  for (const std::string& name : {option.short_name, option.long_name})
    if (!name.empty()) out.push_back(name);
  return out;
}

std::string all_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options)
    for (const std::string& name : names_of(option)) names.push_back(name);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string command_names(const ProgramDescription& program) {
  std::vector<std::string> names;
  for (const CommandDescription& command : program.commands) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// ---- bash ----

std::string bash_action(const OptionDescription& option) {
  switch (values_of_option(option)) {
    case Values::kChoices:
      return fmt::format("_lowtide_words '{}'", fmt::join(option.choices, " "));
    case Values::kFiles:
      return "_lowtide_files -f";
    case Values::kFolders:
      return "_lowtide_files -d";
    case Values::kNone:
    case Values::kOther:
      return ":";
  }
  return ":";
}

constexpr const char* kBashHead = R"(# Completion of lowtide for bash. Made by lowtide generate-docs.
_lowtide_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}

_lowtide_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}

_lowtide() {
  # The words of the command. Bash divides them at = and :, so that --shape=x=1,3 has five: an option and its value
  # stay divided, the others are put together. Bash completes only the last piece.
  local words=() word i joins=0 current=''
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]} current=$word
    if [[ $word =~ ^[=:]+$ ]] && ((${#words[@]} > 0)); then
      current=''
      if [[ $word == = && ${words[-1]} =~ ^--[a-z0-9-]+$ && $joins == 0 ]]; then
        if ((i == COMP_CWORD)); then words+=(''); fi
      else
        words[-1]+=$word joins=1
      fi
    elif ((joins)); then
      words[-1]+=$word joins=0
    else
      words+=("$word")
    fi
  done
  local previous='' command=${words[0]} place=0
  ((${#words[@]} < 2)) || previous=${words[-2]}
  COMPREPLY=()
)";

// How many positional arguments stand before the word: options with a value take the next word.
std::string bash_place(const CommandDescription& command) {
  std::vector<std::string> taking;
  for (const OptionDescription& option : command.options)
    if (!option.is_positional() && option.takes_value())
      for (const std::string& name : names_of(option)) taking.push_back(name);
  return fmt::format(R"(      for ((i = 1; i < ${{#words[@]}} - 1; ++i)); do
        case ${{words[i]}} in
          {}) ((++i)) ;;
          -*) ;;
          *) ((++place)) ;;
        esac
      done
)",
                     fmt::join(taking, "|"));
}

std::string bash_command(const CommandDescription& command) {
  std::string values, places;
  int place = 0;
  bool any_number = false;  // of the last argument
  for (const OptionDescription& option : command.options) {
    if (option.is_positional())
      places += fmt::format("            {}) {} ;;\n",
                            (any_number = option.is_repeatable) ? "*" : std::to_string(place++), bash_action(option));
    else if (option.takes_value())
      values += fmt::format("        {}) {} ;;\n", fmt::join(names_of(option), "|"), bash_action(option));
  }
  return fmt::format(R"(    {})
{}      case $previous in
{}        *)
          if [[ $current == -* ]]; then _lowtide_words '{}'; return; fi
          case $place in
{}{}          esac
          ;;
      esac
      ;;
)",
                     command.name, bash_place(command), values, all_names(command), places,
                     any_number ? "" : "            *) ;;\n");
}

// ---- zsh ----

// In single quotes, within a specification of _arguments.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char letter : replaced(first_words(text), "[]:\\", "\\"))
    out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out;
}

std::string zsh_values(const OptionDescription& option) {
  const std::string head = fmt::format(":{}:", zsh_text(option.is_positional() ? option.argument : option.type));
  switch (values_of_option(option)) {
    case Values::kNone:
      return {};
    case Values::kChoices:
      return head + fmt::format("({})", fmt::join(option.choices, " "));
    case Values::kFiles:
      return head + "_files";
    case Values::kFolders:
      return head + "_files -/";
    case Values::kOther:
      return head + " ";
  }
  return {};
}

std::string zsh_command(const CommandDescription& command) {
  std::string out = fmt::format("      {})\n        _arguments -S", command.name);
  for (const OptionDescription& option : command.options) {
    if (option.is_positional()) {
      out += fmt::format(" \\\n          '{}{}'", option.is_repeatable ? "*" : "", zsh_values(option));
      continue;
    }
    const std::vector<std::string> names = names_of(option);
    const std::string excluded = option.is_repeatable ? "*" : fmt::format("({})", fmt::join(names, " "));
    for (const std::string& name : names) {
      const std::string equals = option.takes_value() ? name.starts_with("--") ? "=" : "+" : "";
      out += fmt::format(" \\\n          '{}{}{}[{}]{}'", excluded, name, equals, zsh_text(option.text),
                         zsh_values(option));
    }
  }
  return out + "\n        ;;\n";
}

// ---- fish ----

std::string fish_text(const std::string& text) { return "'" + replaced(first_words(text), "\\'", "\\") + "'"; }

std::string fish_values(const OptionDescription& option) {
  switch (values_of_option(option)) {
    case Values::kNone:
      return {};
    case Values::kChoices:
      return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
    case Values::kFiles:
      return " -r -F";
    case Values::kFolders:
      return " -x -a '(__fish_complete_directories)'";
    case Values::kOther:
      return " -x";
  }
  return {};
}

std::string fish_option(const std::string& condition, const OptionDescription& option) {
  std::string out = fmt::format("complete -c lowtide -n '{}'", condition);
  if (!option.short_name.empty()) out += " -s " + option.short_name.substr(1);
  if (!option.long_name.empty()) out += " -l " + option.long_name.substr(2);
  return out + fish_values(option) + " -d " + fish_text(option.text) + "\n";
}

}  // namespace

std::string bash_completion(const ProgramDescription& program) {
  std::string out = kBashHead;
  out += fmt::format(
      "  if ((${{#words[@]}} < 2)); then\n"
      "    if [[ $current == -* ]]; then _lowtide_words '{}'; else _lowtide_words '{} help'; fi\n"
      "    return\n"
      "  fi\n"
      "  case $command in\n"
      "    help) _lowtide_words '{}' ;;\n",
      all_names(program.program), command_names(program), command_names(program));
  for (const CommandDescription& command : program.commands) out += bash_command(command);
  return out + "  esac\n}\ncomplete -F _lowtide lowtide\n";
}

std::string zsh_completion(const ProgramDescription& program) {
  std::string out =
      "#compdef lowtide\n"
      "# Completion of lowtide for zsh. Made by lowtide generate-docs.\n"
      "_lowtide() {\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C -S";
  for (const OptionDescription& option : program.program.options)
    for (const std::string& name : names_of(option))
      out += fmt::format(" \\\n    '(- : *){}[{}]'", name, zsh_text(option.text));
  out +=
      " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n  command)\n    local -a "
      "commands=(\n";
  for (const CommandDescription& command : program.commands)
    out += fmt::format("      '{}:{}'\n", replaced(command.name, ":", "\\"), zsh_text(command.text));
  out +=
      "    )\n"
      "    _describe command commands\n"
      "    ;;\n"
      "  argument)\n"
      "    case $words[1] in\n";
  for (const CommandDescription& command : program.commands) out += zsh_command(command);
  return out +
         "    esac\n"
         "    ;;\n"
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _lowtide ]]; then _lowtide \"$@\"; else compdef _lowtide lowtide; fi\n";
}

std::string fish_completion(const ProgramDescription& program) {
  std::string out =
      "# Completion of lowtide for fish. Made by lowtide generate-docs.\n"
      "complete -c lowtide -f\n";
  for (const OptionDescription& option : program.program.options) out += fish_option("__fish_use_subcommand", option);
  for (const CommandDescription& command : program.commands)
    out += fmt::format("complete -c lowtide -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       fish_text(command.text));
  out += fmt::format("complete -c lowtide -n '__fish_seen_subcommand_from help' -a '{}'\n", command_names(program));
  for (const CommandDescription& command : program.commands) {
    const std::string condition = fmt::format("__fish_seen_subcommand_from {}", command.name);
    for (const OptionDescription& option : command.options) {
      if (!option.is_positional())
        out += fish_option(condition, option);
      else if (values_of_option(option) == Values::kFiles)
        out += fmt::format("complete -c lowtide -n '{}' -F\n", condition);
      else if (values_of_option(option) == Values::kFolders)
        out += fmt::format("complete -c lowtide -n '{}' -a '(__fish_complete_directories)'\n", condition);
      else if (values_of_option(option) == Values::kChoices)
        out += fmt::format("complete -c lowtide -n '{}' -a '{}'\n", condition, fmt::join(option.choices, " "));
    }
  }
  return out;
}

}  // namespace lowtide::tools
