// The words of a command line, before they are parsed and where they cannot be.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::cli {

// As the parser takes them: `help COMMAND` is `COMMAND --help`, and options before a subcommand (`bench --store X
// list`) are the subcommand's.
std::vector<std::string> arranged_words(const CLI::App& program, std::vector<std::string> words);

// What is wrong with words that could not be parsed, with what was meant where a command or an option is unknown.
Error usage_error(const CLI::App& program, const std::vector<std::string>& words, const CLI::ParseError& error);

}  // namespace causeway::cli
