#include "formats/weights_file.hpp"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "cohort/core/limits.hpp"
#include "cohort/core/output.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "data/dataset/text_file.hpp"
#include "formats/shipped.hpp"
#include "formats/toml_reader.hpp"

namespace cohort {
namespace {

constexpr Limits<double> kWeightLimits{.least = -1e9, .most = 1e9};

/// What a kind of weights is called, and where the ones are that Cohort brings along.
struct WeightsKind {
    std::string_view trainer;  ///< command that writes such files
    std::string_view shipped_name;
    std::string_view shipped_text;
};

/// TOML: trained_on, and the weight of each term in [weights]. @param file  empty: the shipped one
NamedWeights read_weights(const std::string& file, const WeightsKind& kind) {
    const std::string where = file.empty() ? std::string(kind.shipped_name) : file;
    const auto require_weights = [&](bool good, std::string_view what) {
        require_file(good, where, what,
                     fmt::format("a file of {}: trained_on, [weights]", kind.trainer), "");
    };
    const toml::table root =
        TomlReader(where, TomlReader::Kind::kData)
            .parse(file.empty() ? std::string(kind.shipped_text) : read_text_file(file));
    const toml::table* weights = root["weights"].as_table();
    require_weights(weights != nullptr, "there are no weights");
    NamedWeights read;
    read.trained_on = root["trained_on"].value_or(std::string());
    for (const auto& [term, node] : *weights) {
        const std::optional<double> weight = node.value<double>();
        require_weights(
            weight && kWeightLimits.contain(*weight),
            fmt::format("the weight of {} is not a number, {}", term.str(), kWeightLimits.text()));
        read.terms.emplace_back(term.str());
        read.weights.push_back(*weight);
    }
    return read;
}

}  // namespace

std::string to_toml(const NamedWeights& named) {
    toml::table weights;
    for (std::size_t i = 0; i < named.terms.size(); ++i) {
        weights.insert(named.terms[i], named.weights.at(i));
    }
    std::ostringstream text;
    text << toml::table{{"trained_on", named.trained_on}, {"weights", weights}} << '\n';
    return text.str();
}

std::shared_ptr<const EfficiencyCoefficients> load_efficiency(const std::string& file) {
    EfficiencyCoefficients read =
        read_weights(file, {.trainer = "cohort efficiency train",
                            .shipped_name = "the shipped efficiency model",
                            .shipped_text = shipped_efficiencies().front().bytes});
    (void)EfficiencyModel(read);  // refuses what it does not know
    return std::make_shared<const EfficiencyCoefficients>(std::move(read));
}

std::shared_ptr<const NamedWeights> load_rate_weights(const std::string& file) {
    if (file == kNoChooserFile) {
        return nullptr;
    }
    NamedWeights read = read_weights(file, {.trainer = "cohort chooser train",
                                            .shipped_name = "the shipped weights of star-ml",
                                            .shipped_text = shipped_choosers().front().bytes});
    // Refuses what it does not know.
    (void)RateRegressor::weights_of(read, file.empty() ? "the shipped weights of star-ml" : file);
    return std::make_shared<const NamedWeights>(std::move(read));
}

void load_chooser_files(ChooserOptions& options) {
    if (options.efficiency == EfficiencySource::kModel) {
        options.coefficients = load_efficiency(options.efficiency_file);
    }
    options.rate_weights = load_rate_weights(options.chooser_file);
}

}  // namespace cohort
