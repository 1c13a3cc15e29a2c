#pragma once

#include "jobs/cli/command_line.hpp"

namespace cohort {

void add_train_command(const CommandGroup& all);
void add_simulate_command(const CommandGroup& all);
void add_fleet_command(const CommandGroup& all);
void add_eval_command(const CommandGroup& all);
void add_export_command(const CommandGroup& all);
void add_generate_command(const CommandGroup& all);
void add_import_command(const CommandGroup& all);
void add_sweep_command(const CommandGroup& all);
void add_report_command(const CommandGroup& all);
void add_info_command(const CommandGroup& all);
void add_ctl_command(const CommandGroup& all);
void add_top_command(const CommandGroup& all);
void add_profile_command(const CommandGroup& all);
void add_chooser_commands(const CommandGroup& all);
void add_predictor_commands(const CommandGroup& all);
void add_trace_commands(const CommandGroup& all);
void add_bench_commands(const CommandGroup& all);

}  // namespace cohort
