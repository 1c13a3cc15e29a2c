#include "layers/member_sums.hpp"

#include "layers/cpu/elementwise_cpu.hpp"

namespace cohort {

void add_member_sums(ThreadTeam& team, float* sums, std::size_t floats,
                     std::span<const char> used) {
    constexpr long long kLine = 16;  // floats; parts of whole cache lines
    const auto total = static_cast<long long>(floats);
    const auto add_part = [&](int adder, int adders) {
        const auto [first, last] = part_of(total / kLine, adder, adders);
        for (std::size_t member = 1; member < used.size(); ++member) {
            if (used[member] != 0) {
                const float* from = sums + static_cast<long long>(member) * total;
                accumulate(sums + first * kLine, from + first * kLine, (last - first) * kLine);
            }
        }
    };
    if (team.size() == 1 || floats * sizeof(float) < kWorthSharing) {
        add_part(0, 1);
    } else {
        team.run([&](int member) { add_part(member, team.size()); });
    }
}

}  // namespace cohort
