#include "layers/cpu/weight_reorder.hpp"

#include "layers/cpu/dnnl_version.hpp"
#include "layers/cpu/elementwise_cpu.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kLargestBlock = 16;  // of any blocked order

}  // namespace

WeightReorder::WeightReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                             ThreadTeam& team)
    : team_(&team) {
    const dnnl::memory::dims whole = dims_of(from);
    const std::int64_t blocks = whole[0] / kLargestBlock;
    const bool whole_blocks = whole[0] % kLargestBlock == 0;
    if (whole_blocks && blocks >= team.size() && from.get_size() >= kWorthSharing) {
        try {
            for (int member = 0; member < team.size(); ++member) {
                const auto [first, last] = part_of(blocks, member, team.size());
                dnnl::memory::dims dims = whole;
                dnnl::memory::dims offsets(dims.size(), 0);
                dims[0] = (last - first) * kLargestBlock;
                offsets[0] = first * kLargestBlock;
                parts_.push_back(make_part(from.submemory_desc(dims, offsets),
                                           to.submemory_desc(dims, offsets)));
            }
            return;
        } catch (const dnnl::error&) {
            parts_.clear();  // an order that cannot be cut
        }
    }
    parts_.push_back(dnnl_checked("conv weights", [&] { return make_part(from, to); }));
}

WeightReorder::Part WeightReorder::make_part(const dnnl::memory::desc& from,
                                             const dnnl::memory::desc& to) {
    require_code_memory();
    return {dnnl::reorder(dnnl::reorder::primitive_desc(dnnl_engine(), from, dnnl_engine(), to)),
            from, to};
}

void WeightReorder::run_part(const Part& part, const void* from, void* to) {
    execute("conv weights", part.reorder,
            {{DNNL_ARG_FROM, wrap(part.from, from)}, {DNNL_ARG_TO, wrap(part.to, to)}});
}

void WeightReorder::run(const void* from, void* to) const {
    if (parts_.size() == 1) {
        run_part(parts_[0], from, to);
        return;
    }
    team_->run([&](int member) { run_part(parts_[static_cast<std::size_t>(member)], from, to); });
}

}  // namespace cohort
