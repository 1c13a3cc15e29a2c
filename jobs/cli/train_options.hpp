#pragma once

#include <CLI/CLI.hpp>

#include "cohort/train/options.hpp"

namespace cohort {

/// Declares the options of `cohort train`; each fills the field of its name.
void declare_train_options(CLI::App& app, TrainOptions& options);

}  // namespace cohort
