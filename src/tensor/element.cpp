#include "cohort/tensor/element.hpp"

#include <array>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr std::array<std::pair<Precision, std::string_view>, 4> kNames{{{Precision::kF32, "f32"},
                                                                        {Precision::kTf32, "tf32"},
                                                                        {Precision::kBf16, "bf16"},
                                                                        {Precision::kF16, "f16"}}};

}  // namespace

Precision parse_precision(std::string_view text) {
    for (const auto& [precision, name] : kNames) {
        if (name == text) {
            return precision;
        }
    }
    fail<UsageError>({.where = "--precision",
                      .what = "unknown precision",
                      .expected = "f32, tf32, bf16 or f16",
                      .got = text});
}

std::string_view to_text(Precision precision) noexcept {
    return kNames[static_cast<std::size_t>(precision)].second;
}

std::string_view to_text(ElementType type) noexcept {
    switch (type) {
        case ElementType::kBf16: return "bf16";
        case ElementType::kF16: return "f16";
        default: return "f32";
    }
}

}  // namespace cohort
