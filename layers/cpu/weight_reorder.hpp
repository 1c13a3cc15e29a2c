#pragma once

#include <vector>

#include "cohort/core/thread_team.hpp"
#include "layers/cpu/dnnl_support.hpp"

namespace cohort {

/// Copies weights from one memory order to another, large ones on all members of a team: a part of
/// the output channels each.
class WeightReorder {
public:
    WeightReorder() = default;
    /// @param team must outlive this object
    WeightReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, ThreadTeam& team);

    /// To be called outside of team.run(). Bit-identical whatever the size of the team.
    void run(const void* from, void* to) const;

private:
    struct Part {
        dnnl::reorder reorder;
        dnnl::memory::desc from;
        dnnl::memory::desc to;
    };
    [[nodiscard]] static Part make_part(const dnnl::memory::desc& from,
                                        const dnnl::memory::desc& to);
    static void run_part(const Part& part, const void* from, void* to);

    ThreadTeam* team_ = nullptr;
    std::vector<Part> parts_;
};

}  // namespace cohort
