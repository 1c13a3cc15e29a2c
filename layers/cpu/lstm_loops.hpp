#pragma once

#include <cstdint>

namespace cohort {

/// One position of a slice of sequences. A row holds what an LSTM keeps of one position of one
/// sample: the four gates [i, f, g, o] of `hidden` each, then the cell state.
struct LstmRows {
    std::int64_t samples = 0;
    std::int64_t hidden = 0;
    float* rows = nullptr;          ///< the first sample's
    std::int64_t row_stride = 0;    ///< floats from sample to sample
    const float* before = nullptr;  ///< cell state of the position before, the first sample's
    std::int64_t before_stride = 0;
    std::int64_t output_stride = 0;  ///< of outputs and their gradients
};

/// From sums of weighted inputs to gates, cell state and output:
///   i, f, o = sigmoid(. + bias), g = tanh(. + bias), c = f c_before + i g, h = o tanh(c)
void lstm_forward(const LstmRows& at, const float* bias, float* output);

/// From the gradient of the output to that of the gates' sums, which replaces the gates.
/// @param output_gradient  gradient of this position's output from later layers
/// @param hidden_gradient  [samples, hidden], gradient of the output from the next position
/// @param cell_gradient    [samples, hidden], gradient of the cell state from the next position;
///                         becomes that for the position before
void lstm_backward(const LstmRows& at, const float* output_gradient, const float* hidden_gradient,
                   float* cell_gradient);

}  // namespace cohort
