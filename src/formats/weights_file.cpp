#include "formats/weights_file.hpp"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "cohort/core/error.hpp"
#include "cohort/core/limits.hpp"
#include "formats/efficiency_file.hpp"
#include "formats/toml_reader.hpp"

namespace cohort {
namespace {

constexpr Limits<double> kWeightLimits{.least = -1e9, .most = 1e9};

[[noreturn]] void refuse_weights(const std::string& file, std::string_view trainer,
                                 std::string_view what) {
    fail<FileError>({.where = file,
                     .what = what,
                     .expected = fmt::format("a file of {}: trained_on, [weights]", trainer)});
}

}  // namespace

NamedWeights parse_weights(std::string_view text, const std::string& file,
                           std::string_view trainer) {
    NamedWeights read;
    const toml::table root = TomlReader(file, TomlReader::Kind::kData).parse(text);
    const toml::table* weights = root["weights"].as_table();
    if (weights == nullptr) {
        refuse_weights(file, trainer, "there are no weights");
    }
    read.trained_on = root["trained_on"].value_or(std::string());
    for (const auto& [term, node] : *weights) {
        const std::optional<double> weight = node.value<double>();
        if (!weight || !kWeightLimits.contain(*weight)) {
            refuse_weights(file, trainer,
                           fmt::format("the weight of {} is not a number, {}", term.str(),
                                       kWeightLimits.text()));
        }
        read.terms.emplace_back(term.str());
        read.weights.push_back(*weight);
    }
    return read;
}

std::string to_toml(const NamedWeights& named) {
    toml::table weights;
    for (std::size_t i = 0; i < named.terms.size(); ++i) {
        weights.insert(named.terms[i], named.weights.at(i));
    }
    std::ostringstream text;
    text << toml::table{{"trained_on", named.trained_on}, {"weights", weights}} << '\n';
    return text.str();
}

}  // namespace cohort
