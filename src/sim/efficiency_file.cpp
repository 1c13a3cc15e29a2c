#include "cohort/sim/efficiency_file.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <optional>
#include <sstream>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"
#include "shipped_efficiency.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse(const std::string& file, std::string_view what) {
    fail<FileError>({.where = file,
                     .what = what,
                     .expected = "a file of cohort efficiency train: trained_on, [weights]"});
}

EfficiencyCoefficients parse(std::string_view text, const std::string& file) {
    EfficiencyCoefficients coefficients;
    try {
        const toml::table root = toml::parse(text);
        const toml::table* weights = root["weights"].as_table();
        if (weights == nullptr) {
            refuse(file, "there are no weights");
        }
        coefficients.trained_on = root["trained_on"].value_or(std::string());
        for (const auto& [term, node] : *weights) {
            const std::optional<double> weight = node.value<double>();
            if (!weight || !std::isfinite(*weight)) {
                refuse(file, fmt::format("the weight of {} is not a number", term.str()));
            }
            coefficients.terms.emplace_back(term.str());
            coefficients.weights.push_back(*weight);
        }
    } catch (const toml::parse_error& error) {
        fail<FileError>({.where = fmt::format("{}, line {}", file, error.source().begin.line),
                         .what = "not a TOML file",
                         .got = error.description()});
    }
    (void)EfficiencyModel(coefficients);  // refuses what it does not know
    return coefficients;
}

}  // namespace

std::string to_toml(const EfficiencyCoefficients& coefficients) {
    toml::table weights;
    for (std::size_t i = 0; i < coefficients.terms.size(); ++i) {
        weights.insert(coefficients.terms[i], coefficients.weights.at(i));
    }
    std::ostringstream text;
    text << toml::table{{"trained_on", coefficients.trained_on}, {"weights", weights}} << '\n';
    return text.str();
}

std::shared_ptr<const EfficiencyCoefficients> load_efficiency(const std::string& file) {
    return std::make_shared<const EfficiencyCoefficients>(
        file.empty() ? parse(shipped_efficiency_text(), "the shipped efficiency model")
                     : parse(read_text_file(file), file));
}

}  // namespace cohort
