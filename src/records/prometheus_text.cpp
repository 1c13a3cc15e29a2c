#include "records/prometheus_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace cohort {
namespace {

/// @param quotes  escaped too: the text is a label's value
std::string escaped(std::string_view text, bool quotes) {
    std::string out;
    for (const char c : text) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || (quotes && c == '"')) {
            out += '\\';
        }
        out += c;
    }
    return out;
}

std::string label(std::string_view name, std::string_view value) {
    return fmt::format("{}=\"{}\"", name, escaped(value, true));
}

std::string number(double value) {
    if (std::isnan(value)) {
        return "NaN";
    }
    if (std::isinf(value)) {
        return value > 0 ? "+Inf" : "-Inf";
    }
    return fmt::format("{}", value);
}

}  // namespace

PrometheusText::PrometheusText(std::string_view name, std::string_view value)
    : common_(label(name, value)) {
}

void PrometheusText::metric(std::string_view name, Type type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name,
                   escaped(help, false), name, type == Type::kCounter ? "counter" : "gauge");
}

void PrometheusText::sample(double value, Labels labels) {
    text_ += name_ + '{' + common_;
    for (const auto& [name, text] : labels) {
        text_ += ',' + label(name, text);
    }
    text_ += "} " + number(value) + '\n';
}

}  // namespace cohort
