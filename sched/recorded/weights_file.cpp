#include "sched/recorded/weights_file.hpp"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "cohort/core/limits.hpp"
#include "cohort/core/output.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "data/file/text_file.hpp"
#include "data/text/toml_reader.hpp"
#include "sched/recorded/shipped.hpp"

namespace cohort {
namespace {

constexpr Limits<double> kWeightLimits{.least = -1e9, .most = 1e9};

/// TOML: trained_on, and the weight of each term in [weights].
NamedWeights read_weights(const std::string& text, const std::string& where) {
    const auto require_weights = [&](bool good, std::string_view what) {
        require_file(good, where, what, "a file of cohort chooser train: trained_on, [weights]",
                     "");
    };
    const toml::table root = TomlReader(where, TomlReader::Kind::kData).parse(text);
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

std::shared_ptr<const NamedWeights> load_rate_weights(const std::string& file) {
    if (file == kNoChooserFile) {
        return nullptr;
    }
    const bool shipped = file.empty();
    const std::string where = shipped ? "the shipped weights of star-ml" : file;
    NamedWeights read = read_weights(
        shipped ? std::string(shipped_choosers().front().bytes) : read_text_file(file), where);
    (void)RateRegressor::weights_of(read, where);  // refuses what it does not know
    return std::make_shared<const NamedWeights>(std::move(read));
}

}  // namespace cohort
