#include "formats/chooser_file.hpp"

#include "cohort/sched/rate_regressor.hpp"
#include "data/dataset/text_file.hpp"
#include "formats/efficiency_file.hpp"
#include "formats/shipped.hpp"
#include "formats/weights_file.hpp"

namespace cohort {
namespace {

std::shared_ptr<const NamedWeights> parse_chooser(std::string_view text, const std::string& file) {
    NamedWeights named = parse_weights(text, file, "cohort chooser train");
    (void)RateRegressor::weights_of(named, file);  // refuses what it does not know
    return std::make_shared<const NamedWeights>(std::move(named));
}

}  // namespace

std::shared_ptr<const NamedWeights> load_rate_weights(const std::string& file) {
    if (file == kNoChooserFile) {
        return nullptr;
    }
    return file.empty()
               ? parse_chooser(shipped_choosers().front().bytes, "the shipped weights of star-ml")
               : parse_chooser(read_text_file(file), file);
}

void load_chooser_files(ChooserOptions& options) {
    if (options.efficiency == EfficiencySource::kModel) {
        options.coefficients = load_efficiency(options.efficiency_file);
    }
    options.rate_weights = load_rate_weights(options.chooser_file);
}

}  // namespace cohort
