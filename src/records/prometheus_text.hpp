#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

/// Metrics in the text format of Prometheus, version 0.0.4
/// (https://prometheus.io/docs/instrumenting/exposition_formats/).
class PrometheusText {
public:
    using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
    enum class Type : std::uint8_t { kCounter, kGauge };

    /// @param name, value  of a label that every sample carries
    PrometheusText(std::string_view name, std::string_view value);

    /// The samples that follow are of this metric. @param name  with its unit, of a counter
    /// ..._total @param help  one sentence
    void metric(std::string_view name, Type type, std::string_view help);
    void sample(double value, Labels labels = {});

    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    std::string common_;  ///< label of every sample
    std::string name_;    ///< of the metric in hand
    std::string text_;
};

}  // namespace cohort
