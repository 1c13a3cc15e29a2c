#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/data/dataset.hpp"

namespace cohort {

/// Writes a dataset of grey images [1,12,12] in four classes: one quarter is brighter than the
/// others. Learnable in a few hundred samples.
inline void write_tiny_dataset(const std::string& path, std::int64_t train, std::int64_t test,
                               Hdf5Thread& thread) {
    constexpr int kSide = 12;
    DatasetWriter writer(path,
                         {.sample_shape = {1, kSide, kSide},
                          .classes = 4,
                          .source = "made for tests",
                          .chunk_samples = 32},
                         thread);
    Rng rng(5, RngPurpose::kTest);
    for (std::int64_t i = 0; i < train + test; ++i) {
        const std::int32_t quarter = static_cast<std::int32_t>(rng.next_below(4));
        std::vector<std::byte> pixels;
        for (int y = 0; y < kSide; ++y) {
            for (int x = 0; x < kSide; ++x) {
                const bool bright = 2 * y / kSide == quarter / 2 && 2 * x / kSide == quarter % 2;
                pixels.push_back(static_cast<std::byte>(rng.next_below(150) + (bright ? 100 : 0)));
            }
        }
        writer.append(i < train ? DatasetGroup::kTrain : DatasetGroup::kTest, pixels,
                      std::vector<std::int32_t>{quarter});
    }
    writer.commit();
}

}  // namespace cohort
