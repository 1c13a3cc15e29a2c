#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elementwise_cpu.hpp"

namespace cohort {

/// The sums of a parameter gradient that every team member keeps by itself, in a kernel's shared
/// memory of the backward pass.
class MemberSums {
public:
    /// @param floats  of one member's sums
    MemberSums(ThreadTeam& team, std::int64_t floats)
        : team_(team),
          floats_((floats + kAlignment - 1) / kAlignment * kAlignment),
          used_(static_cast<std::size_t>(team.size())) {}

    [[nodiscard]] std::size_t bytes() const noexcept {
        return static_cast<std::size_t>(floats_) * sizeof(float) * used_.size();
    }
    /// Before the pass.
    void begin() { std::fill(used_.begin(), used_.end(), char{0}); }
    /// The member's sums, zero when it asks for the first time.
    [[nodiscard]] float* of(std::byte* shared, int member) {
        float* sums = reinterpret_cast<float*>(shared) + floats_ * member;
        char& used = used_[static_cast<std::size_t>(member)];
        if (used == 0) {
            std::fill_n(sums, floats_, 0.0F);
        }
        used = 1;
        return sums;
    }
    /// After the pass, outside of team.run(): the sum over members, always in the same order.
    [[nodiscard]] const float* total(std::byte* shared) {
        auto* sums = reinterpret_cast<float*>(shared);
        add_member_sums(team_, sums, static_cast<std::size_t>(floats_), used_);
        return sums;
    }

private:
    static constexpr std::int64_t kAlignment = 16;

    ThreadTeam& team_;
    std::int64_t floats_;
    std::vector<char> used_;  ///< per member: has sums
};

}  // namespace cohort
