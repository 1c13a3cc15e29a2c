#pragma once

#include <cstdint>

namespace cohort {

/// The taps of an output that lie within the image.
struct PoolTaps {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t cell = 0;  ///< under tap 0; may lie outside
};

/// An output that reads an input, and by which tap.
struct PoolUse {
    std::int64_t output = 0;
    std::int64_t tap = 0;
};

/// Windows along one axis: PoolAxis as plain arrays.
struct PoolLine {
    std::int64_t dilation = 1;
    std::int64_t kernel = 1;
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
    const PoolTaps* taps = nullptr;           ///< [outputs]
    const PoolUse* uses = nullptr;            ///< of input i: first_use[i] .. first_use[i + 1] - 1
    const std::int64_t* first_use = nullptr;  ///< [inputs + 1]
};

/// A slice to be pooled, [planes][rows][columns][lanes].
struct PoolTask {
    PoolLine rows;
    PoolLine columns;
    std::int64_t planes = 0;  ///< of `lanes` channels, of all samples
    std::int64_t lanes = 1;
    bool counts_padding = false;  ///< an average is that of the whole window
};

}  // namespace cohort
