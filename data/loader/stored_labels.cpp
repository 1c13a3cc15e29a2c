#include <algorithm>
#include <cstring>
#include <vector>

#include "cohort/data/sample_source.hpp"

namespace cohort {
namespace {

template <class Stored>
void split_typed(const std::byte* stored, std::int64_t positions, std::int32_t* tokens,
                 std::int32_t* labels) {
    std::vector<Stored> window(static_cast<std::size_t>(positions) + 1);
    std::memcpy(window.data(), stored, window.size() * sizeof(Stored));
    std::copy(window.begin(), window.end() - 1, tokens);
    std::copy(window.begin() + 1, window.end(), labels);
}

}  // namespace

void split_window(const std::byte* stored, SampleType type, std::int64_t positions,
                  std::int32_t* tokens, std::int32_t* labels) {
    if (type == SampleType::kU16) {
        split_typed<std::uint16_t>(stored, positions, tokens, labels);
    } else {
        split_typed<std::int32_t>(stored, positions, tokens, labels);
    }
}

void standardise_targets(const float* stored, const SampleSetInfo& info, float* targets) {
    for (std::size_t i = 0; i < info.target_mean.size(); ++i) {
        targets[i] = (stored[i] - info.target_mean[i]) / info.target_std[i];
    }
}

}  // namespace cohort
