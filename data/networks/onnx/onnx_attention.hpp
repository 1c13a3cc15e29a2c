#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/model/graph.hpp"

namespace cohort {

/// An intermediate value of an attention, which one layer computes as a whole: what it is made of.
struct OnnxView {
    enum class Stage { kPart, kSequence, kScores, kShares, kMeans };

    /// Features of queries, keys or values: all of a value [T,F], or one of three parts of it, side
    /// by side.
    struct Source {
        Value value;
        int part = -1;  ///< 0..2; -1: all
        friend bool operator==(const Source& a, const Source& b) {
            return a.value.index == b.value.index && a.part == b.part;
        }
    };

    Stage stage = Stage::kPart;
    /// One letter per axis: N batch, T positions, S positions of keys, P the three parts, H heads,
    /// B heads of all samples of the batch, D features of a head, F features of all heads, 1 an
    /// axis of one number.
    std::string axes;
    std::int64_t heads = 0;                        ///< 0: not split yet
    std::array<std::optional<Source>, 3> sources;  ///< queries, keys, values; a part has one only
    double scale = 1;                              ///< of the scores
    bool causal = false;
    std::size_t split_axis = 0;  ///< along which a sequence of three parts was split
};

}  // namespace cohort
