#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cohort/core/output.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/predictor.hpp"
#include "sched/predict/lstm_model.hpp"

namespace cohort {

/// A model and where it comes from.
struct PredictorFile {
    LstmModel model;
    std::string trained_on;  ///< one line
};

/// A store (data/hdf5/store.hpp) of scaling and parameters; docs/prediction.md. At once or not at
/// all. Errors: as StoreWriter.
void write_predictor(const OutputFile& file, const PredictorFile& predictor);
/// Errors: FileError naming file and array; for a TOML file of earlier versions, with what to do.
[[nodiscard]] PredictorFile read_predictor(const std::string& file);
/// The model that Cohort brings along.
[[nodiscard]] PredictorFile shipped_predictor();

/// The model of a file; of the empty one the shipped model, made once. Errors: FileError.
[[nodiscard]] std::shared_ptr<const LstmModel> load_predictor(const std::string& file);

/// The model behind ChooserOptions::predictor; null: it uses none. Errors: FileError.
[[nodiscard]] std::shared_ptr<const LstmModel> model_of(const ChooserOptions& options);

/// What ChooserOptions::predictor names, with its model. "oracle" is the simulation's to make.
/// Errors: UsageError, FileError.
[[nodiscard]] std::unique_ptr<Predictor> make_run_predictor(const ChooserOptions& options,
                                                            int workers, std::int64_t batch);

}  // namespace cohort
