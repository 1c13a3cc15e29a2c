#pragma once

#include <memory>

#include "jobs/cli/command_line.hpp"

namespace cohort {

[[nodiscard]] std::unique_ptr<Command> make_train_command();
[[nodiscard]] std::unique_ptr<Command> make_simulate_command();
[[nodiscard]] std::unique_ptr<Command> make_sweep_command();
[[nodiscard]] std::unique_ptr<Command> make_report_command();
[[nodiscard]] std::unique_ptr<Command> make_eval_command();
[[nodiscard]] std::unique_ptr<Command> make_import_command();
[[nodiscard]] std::unique_ptr<Command> make_info_command();
[[nodiscard]] std::unique_ptr<Command> make_ctl_command();
[[nodiscard]] std::unique_ptr<Command> make_bench_engine_command();
[[nodiscard]] std::unique_ptr<Command> make_bench_exchange_command();
[[nodiscard]] std::unique_ptr<Command> make_profile_command();
[[nodiscard]] std::unique_ptr<Command> make_chooser_train_command();
[[nodiscard]] std::unique_ptr<Command> make_chooser_score_command();
[[nodiscard]] std::unique_ptr<Command> make_efficiency_train_command();
[[nodiscard]] std::unique_ptr<Command> make_efficiency_score_command();
[[nodiscard]] std::unique_ptr<Command> make_predictor_train_command();
[[nodiscard]] std::unique_ptr<Command> make_predictor_score_command();
[[nodiscard]] std::unique_ptr<Command> make_trace_make_command();
[[nodiscard]] std::unique_ptr<Command> make_trace_show_command();

}  // namespace cohort
