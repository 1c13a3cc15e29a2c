#include "sched/recorded/predictor_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "data/file/text_file.hpp"
#include "data/hdf5/store.hpp"
#include "sched/recorded/shipped.hpp"

namespace cohort {
namespace {

const StoreFormat kFormat{.name = "cohort-predictor", .version = 2};

constexpr const char* kTrainedOn = "trained_on";
constexpr const char* kFeatureMean = "/feature_mean";
constexpr const char* kFeatureDeviation = "/feature_deviation";
constexpr const char* kTimeScale = "/time_mean_deviation";
constexpr const char* kParameters = "/parameters";

/// Errors: FileError for a number that is none.
void read_numbers(const StoreReader& store, const char* name, std::span<float> values) {
    store.read_into(name, values);
    const auto wrong =
        std::ranges::find_if_not(values, [](float each) { return std::isfinite(each); });
    require_file(wrong == values.end(), fmt::format("{}:{}", store.path(), name),
                 "not a finite number", "", wrong == values.end() ? "" : fmt::format("{}", *wrong));
}

PredictorFile read_stored_predictor(const StoreReader& store) {
    store.require_format(kFormat);
    PredictorFile read;
    read.trained_on = store.attribute<std::string>("/", kTrainedOn);
    LstmModel& model = read.model;
    read_numbers(store, kFeatureMean, model.feature_mean);
    read_numbers(store, kFeatureDeviation, model.feature_deviation);
    std::array<float, 2> time{};
    read_numbers(store, kTimeScale, time);
    model.time_mean = time[0];
    model.time_deviation = time[1];
    model.parameters.resize(static_cast<std::size_t>(LstmModel::parameter_count()));
    read_numbers(store, kParameters, model.parameters);
    return read;
}

}  // namespace

void write_predictor(const OutputFile& file, const PredictorFile& predictor) {
    const LstmModel& model = predictor.model;
    Hdf5Thread thread;
    StoreWriter store(file, kFormat, thread);
    const auto put = [&store](const char* name, std::span<const float> values) {
        store.put(name, values);
    };
    put(kFeatureMean, model.feature_mean);
    put(kFeatureDeviation, model.feature_deviation);
    put(kTimeScale, std::array{model.time_mean, model.time_deviation});
    put(kParameters, model.parameters);
    store.set("/", kTrainedOn, predictor.trained_on);
    store.commit();
}

PredictorFile read_predictor(const std::string& file) {
    require_file(!read_text_file(file).starts_with("format = \"cohort-predictor"), file,
                 "a predictor of a version before 0.2.0, which wrote TOML", "an HDF5 file", "",
                 "cohort predictor train RUNS --out NEW.h5");
    Hdf5Thread thread;
    return read_stored_predictor(StoreReader(file, thread));
}

PredictorFile shipped_predictor() {
    Hdf5Thread thread;
    return read_stored_predictor(StoreReader(
        StoreImage{.name = "the shipped predictor", .bytes = shipped_predictors().front().bytes},
        thread));
}

std::shared_ptr<const LstmModel> load_predictor(const std::string& file) {
    if (!file.empty()) {
        return std::make_shared<const LstmModel>(read_predictor(file).model);
    }
    static const auto shipped = std::make_shared<const LstmModel>(shipped_predictor().model);
    return shipped;
}

std::shared_ptr<const LstmModel> model_of(const ChooserOptions& options) {
    return uses_model(options.predictor) ? load_predictor(options.predictor_file) : nullptr;
}

std::unique_ptr<Predictor> make_run_predictor(const ChooserOptions& options, int workers,
                                              std::int64_t batch) {
    return make_predictor(options.predictor, workers, batch, model_of(options));
}

}  // namespace cohort
