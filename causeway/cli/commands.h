// The commands of the program, one file each. A command adds its options to the command line and returns what to run.
#pragma once

#include <CLI/CLI.hpp>

#include "causeway/namespaces.h"

namespace causeway::cli {

// Each adds its subcommand to `program`. The subcommand's callback throws Error for what the user can mend.
void add_train_command(CLI::App& program);
void add_generate_command(CLI::App& program);
void add_evaluate_command(CLI::App& program);
void add_import_command(CLI::App& program);
void add_export_command(CLI::App& program);
void add_adapters_command(CLI::App& program);
void add_data_command(CLI::App& program);
void add_tokenizer_command(CLI::App& program);
void add_checkpoint_command(CLI::App& program);
void add_doctor_command(CLI::App& program);
void add_cache_command(CLI::App& program);
void add_explain_command(CLI::App& program);
void add_plan_command(CLI::App& program);
void add_bench_command(CLI::App& program);
// list, compare, report, export and import, below `bench`.
void add_bench_results_commands(CLI::App& bench);
void add_launch_command(CLI::App& program);
void add_recipe_command(CLI::App& program);
void add_completion_command(CLI::App& program);
void add_help_command(CLI::App& program);

// The status that the program exits with when a command has run and has something to say by it (a damaged checkpoint);
// 0 otherwise.
extern int command_status;

// A training run that a signal stopped, with its progress saved: neither finished nor failed.
constexpr int kInterruptedStatus = 4;

}  // namespace causeway::cli
