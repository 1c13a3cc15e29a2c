#pragma once

#include <cstdint>

#include "cohort/core/host_device.hpp"

// Where the parameters of an LSTM lie in cuDNN's weight space. Ours are weight_input [4 H, F],
// weight_hidden [4 H, H] and bias [4 H], in the gates' order input, forget, cell candidate, output,
// which is cuDNN's as well: its matrices 0 to 3 are the rows of weight_input, 4 to 7 those of
// weight_hidden, each row-major; biases 0 to 3 are ours, 4 to 7 do not exist.
namespace cohort::cuda {

struct LstmWeights {
    static constexpr int kGates = 4;
    static constexpr int kMatrices = 2 * kGates;
    static constexpr int kParts = kMatrices + kGates;

    std::int64_t features = 0;
    std::int64_t hidden = 0;
    /// First element of every part in the weight space: eight matrices, four biases.
    std::int64_t offsets[kParts] = {};

    /// Elements of all parts.
    [[nodiscard]] COHORT_HD std::int64_t elements() const {
        return kGates * hidden * (features + hidden + 1);
    }
    /// Elements of one of the parts.
    [[nodiscard]] COHORT_HD std::int64_t part_elements(int part) const {
        return part < kGates ? hidden * features : (part < kMatrices ? hidden * hidden : hidden);
    }
};

/// Where an element is in our parameters and in the weight space.
struct LstmPlace {
    int parameter;      ///< 0: weight_input, 1: weight_hidden, 2: bias
    std::int64_t ours;  ///< in that parameter
    std::int64_t theirs;
};
/// @param i  in [0, elements()): weight_input, weight_hidden, bias one after the other
[[nodiscard]] COHORT_HD inline LstmPlace lstm_place(const LstmWeights& w, std::int64_t i) {
    int parameter = 0;
    for (int part = 0; parameter < 2; part += LstmWeights::kGates) {
        const std::int64_t size = LstmWeights::kGates * w.part_elements(part);
        if (i < size) {
            break;
        }
        i -= size;
        ++parameter;
    }
    const int first = parameter * LstmWeights::kGates;
    const std::int64_t size = w.part_elements(first);
    return {parameter, i, w.offsets[first + i / size] + i % size};
}

}  // namespace cohort::cuda
