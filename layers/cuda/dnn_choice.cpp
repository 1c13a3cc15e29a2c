#include "dnn_choice.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "layouts.hpp"
#include "stopwatch.hpp"
#include "support.hpp"
#include "tuning.hpp"

namespace cohort::cuda {
namespace {

constexpr std::size_t kMostPerVariant = 8;                    // candidates that are measured
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;  // bytes; more costs batch size

/// An engine configuration of one of the variants.
struct Candidate {
    int variant = 0;
    DnnDescriptor config;
};

std::vector<Candidate> candidates_of(const std::vector<PlanVariant>& variants,
                                     const EngineRules& rules) {
    std::vector<Candidate> candidates;
    for (std::size_t v = 0; v < variants.size(); ++v) {
        std::vector<DnnDescriptor> configs = engine_configs(*variants[v].graph, rules);
        for (DnnDescriptor& config : configs) {
            candidates.push_back({static_cast<int>(v), std::move(config)});
        }
    }
    return candidates;
}

/// Memory to measure on, filled with zeros.
class Ground {
public:
    Ground(Support& support, const std::vector<DnnTensor>& tensors)
        : stream_(support.stream()), tensors_(tensors) {
        for (const DnnTensor& tensor : tensors) {
            buffers_.push_back(support.device().allocate(tensor_bytes(tensor)));
            fill(buffers_.size() - 1, 0);
            pointers_.push_back(buffers_.back().data());
            places_.push_back({tensor.uid, buffers_.back().data()});
        }
    }
    /// Every byte of a tensor; 0xFF makes NaN of all types.
    void fill(std::size_t tensor, int byte) {
        check(cudaMemsetAsync(buffers_[tensor].data(), byte, buffers_[tensor].bytes(), stream_),
              "cudaMemsetAsync");
    }
    [[nodiscard]] std::span<void* const> pointers() const { return pointers_; }
    [[nodiscard]] std::span<const DnnPlace> places() const { return places_; }

    /// True: the output's middle pixel of the first sample has a NaN in its first channel.
    [[nodiscard]] bool output_is_nan() const {
        const DnnTensor& output = tensors_.back();
        const std::int64_t element =
            output.dims[2] / 2 * output.strides[2] + output.dims[3] / 2 * output.strides[3];
        std::uint32_t bits = 0;
        check(cudaMemcpyAsync(&bits,
                              static_cast<const std::byte*>(pointers_.back()) +
                                  static_cast<std::size_t>(element) * element_bytes(output.type),
                              element_bytes(output.type), cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
        check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
        switch (output.type) {
            case ElementType::kF32: return nan_bits(bits, 8, 23);
            case ElementType::kBf16: return nan_bits(bits, 8, 7);
            case ElementType::kF16: return nan_bits(bits, 5, 10);
        }
        return false;
    }

private:
    cudaStream_t stream_;
    const std::vector<DnnTensor>& tensors_;
    std::vector<Buffer> buffers_;
    std::vector<void*> pointers_;
    std::vector<DnnPlace> places_;
};

double measure(Support& support, const ChosenPlan& chosen, const PlanVariant& variant,
               Ground& ground, void* workspace) {
    if (variant.must_keep_nan) {
        ground.fill(0, 0xFF);
        chosen.plan->run(support.dnn_handle(), ground.places(), workspace);
        const bool kept = ground.output_is_nan();
        ground.fill(0, 0);
        if (!kept) {
            return std::numeric_limits<double>::infinity();
        }
    }
    return fastest_seconds(support.stream(), [&] {
        chosen.plan->run(support.dnn_handle(), ground.places(), workspace);
        if (variant.rest) {
            variant.rest(ground.pointers());
        }
    });
}

class Choice {
public:
    Choice(Support& support, const PlanRequest& request)
        : support_(support),
          request_(request),
          variants_(request.variants()),
          candidates_(candidates_of(variants_, request.rules)) {}

    [[nodiscard]] ChosenPlan choose() {
        if (request_.rules.deterministic || request_.tuning == nullptr) {
            return first();
        }
        const std::string key = request_.what + " | " + gpu_facts(support_.device()).name +
                                " | cuDNN " + std::to_string(dnn().version());
        const int known = request_.tuning->find(key);
        if (known >= 0 && static_cast<std::size_t>(known) < candidates_.size()) {
            if (std::optional<ChosenPlan> plan = make(static_cast<std::size_t>(known))) {
                return std::move(*plan);
            }
            candidates_ = candidates_of(variants_, request_.rules);  // `make` consumed one
        }
        int fastest = -1;
        ChosenPlan chosen = measured(fastest);
        if (fastest >= 0) {
            request_.tuning->remember(key, fastest);
        }
        return chosen;
    }

private:
    /// nullopt: the engine cannot, or wants too much memory.
    std::optional<ChosenPlan> make(std::size_t index) {
        Candidate& candidate = candidates_[index];
        const auto variant = static_cast<std::size_t>(candidate.variant);
        std::unique_ptr<DnnPlan> plan = DnnPlan::make(
            support_.dnn_handle(), variants_[variant].graph, std::move(candidate.config));
        if (plan == nullptr || plan->workspace() > kMostWorkspace) {
            return std::nullopt;
        }
        return ChosenPlan{std::move(plan), candidate.variant};
    }

    /// Of a variant that needs no trial run: the first engine that can.
    [[nodiscard]] ChosenPlan first() {
        for (std::size_t i = 0; i < candidates_.size(); ++i) {
            if (variants_[static_cast<std::size_t>(candidates_[i].variant)].must_keep_nan) {
                continue;
            }
            if (std::optional<ChosenPlan> plan = make(i)) {
                return std::move(*plan);
            }
        }
        fail<DeviceError>(
            {.where = request_.what,
             .what = "cuDNN has no engine for it on " + gpu_facts(support_.device()).name,
             .hint = "another --precision, or --device cpu"});
    }

    /// @param fastest  -1: nothing could be measured
    [[nodiscard]] ChosenPlan measured(int& fastest) {
        std::optional<Ground> ground;
        try {
            ground.emplace(support_, request_.tensors);
        } catch (const OutOfMemory&) {
            return first();
        }
        std::optional<ChosenPlan> best;
        double best_seconds = std::numeric_limits<double>::infinity();
        std::vector<std::size_t> tried(variants_.size(), 0);
        for (std::size_t i = 0; i < candidates_.size(); ++i) {
            std::size_t& count = tried[static_cast<std::size_t>(candidates_[i].variant)];
            if (count == kMostPerVariant) {
                continue;
            }
            std::optional<ChosenPlan> plan = make(i);
            if (!plan) {
                continue;
            }
            ++count;
            const double seconds = seconds_of(*plan, *ground);
            if (seconds < best_seconds) {
                best_seconds = seconds;
                best = std::move(plan);
                fastest = static_cast<int>(i);
            }
        }
        if (!best) {  // none could be measured: the heuristics' first, or the error that says why
            candidates_ = candidates_of(variants_, request_.rules);
            return first();
        }
        return std::move(*best);
    }

    /// Infinite where the workspace does not fit, the engine refuses to run or loses a NaN.
    double seconds_of(const ChosenPlan& plan, Ground& ground) {
        try {
            const Buffer workspace =
                support_.device().allocate(std::max<std::size_t>(plan.plan->workspace(), 1));
            return measure(support_, plan, variants_[static_cast<std::size_t>(plan.variant)],
                           ground, workspace.data());
        } catch (const DeviceError&) {
            return std::numeric_limits<double>::infinity();
        }
    }

    Support& support_;
    const PlanRequest& request_;
    std::vector<PlanVariant> variants_;
    std::vector<Candidate> candidates_;
};

}  // namespace

const ChosenPlan& DnnPlans::get(Support& support, const PlanRequest& request) {
    const auto found = plans_.find(request.what);
    if (found != plans_.end()) {
        return found->second;
    }
    use(support.device());
    return plans_.emplace(request.what, Choice(support, request).choose()).first->second;
}

}  // namespace cohort::cuda
