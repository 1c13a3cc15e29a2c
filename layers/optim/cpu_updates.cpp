// The rules on the CPU: stretch by stretch through the loops of kernels.cpp.
#include <algorithm>

#include "core/tensor/cpu_team.hpp"
#include "layers/optim/updates.hpp"

namespace cohort {
namespace {

class CpuUpdates final : public Updates {
public:
    CpuUpdates(const FlatLayout& layout, std::int64_t begin, std::int64_t end, Device& device)
        : team_(cpu_team(device)), runs_(update_runs(layout, begin, end)) {}

    void sgd(const kernels::SgdFactors& factors, kernels::Decay decay, const UpdatePiece& piece,
             float* u) override {
        each(piece,
             [&](bool decays, std::int64_t at, float* theta, const float* g, std::int64_t n) {
                 kernels::sgd(factors, decays ? decay : kernels::Decay::kNone, theta, u + at, g, n);
             });
    }

    void adamw(const kernels::AdamFactors& factors, kernels::Decay decay, const UpdatePiece& piece,
               float* m, float* v, float* partial) override {
        each(piece,
             [&](bool decays, std::int64_t at, float* theta, const float* g, std::int64_t n) {
                 kernels::adamw(factors, decays ? decay : kernels::Decay::kNone, theta, m + at,
                                v + at, partial + at, g, n);
             });
    }

    void sgd_delta(const kernels::DeltaFactors& factors, const UpdatePiece& piece,
                   float* u) override {
        each(piece, [&](bool /*decays*/, std::int64_t at, float* theta, const float* delta,
                        std::int64_t n) { kernels::sgd_delta(factors, theta, u + at, delta, n); });
    }

    void add_delta(const UpdatePiece& piece) override {
        each(piece, [&](bool /*decays*/, std::int64_t /*at*/, float* theta, const float* delta,
                        std::int64_t n) { kernels::add_delta(theta, delta, n); });
    }

    void share(std::int64_t size,
               const std::function<void(std::int64_t, std::int64_t)>& apply) override {
        constexpr std::int64_t kWorthSharing = std::int64_t{1} << 18;  // floats
        if (team_.size() == 1 || size < kWorthSharing) {
            apply(0, size);
            return;
        }
        // Whole cache lines, so that members do not write into each other's.
        const std::int64_t lines = (size + FlatLayout::kAlignment - 1) / FlatLayout::kAlignment;
        team_.run([&](int member) {
            const auto [first, last] = part_of(lines, member, team_.size());
            apply(first * FlatLayout::kAlignment,
                  std::min<std::int64_t>(last * FlatLayout::kAlignment, size));
        });
    }

private:
    /// f(decays, offset in the range, parameters, gradient, floats) for every stretch of the piece.
    template <class F>
    void each(const UpdatePiece& piece, F&& f) const {
        const std::int64_t end = piece.offset + piece.count;
        auto run = std::partition_point(runs_.begin(), runs_.end(),
                                        [&](const UpdateRun& r) { return r.end <= piece.offset; });
        for (; run != runs_.end() && run->begin < end; ++run) {
            const std::int64_t first = std::max(run->begin, piece.offset);
            const std::int64_t last = std::min(run->end, end);
            const std::int64_t at = first - piece.offset;
            f(run->decay, first, piece.theta + at, piece.gradient + at, last - first);
        }
    }

    ThreadTeam& team_;
    std::vector<UpdateRun> runs_;
};

}  // namespace

std::vector<UpdateRun> update_runs(const FlatLayout& layout, std::int64_t begin, std::int64_t end) {
    std::vector<UpdateRun> runs;
    for (const FlatRange& range : layout.ranges()) {
        const std::int64_t first = std::max(range.offset, begin) - begin;
        const std::int64_t last = std::min(range.offset + range.size, end) - begin;
        if (first >= last) {
            continue;
        }
        if (!runs.empty() && runs.back().end == first && runs.back().decay == range.decay) {
            runs.back().end = last;
        } else {
            runs.push_back({first, last, range.decay});
        }
    }
    return runs;
}

std::unique_ptr<Updates> make_cpu_updates(const FlatLayout& layout, std::int64_t begin,
                                          std::int64_t end, Device& device) {
    return std::make_unique<CpuUpdates>(layout, begin, end, device);
}

}  // namespace cohort
