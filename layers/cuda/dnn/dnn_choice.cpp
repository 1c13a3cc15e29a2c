#include "layers/cuda/dnn/dnn_choice.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/cuda/rules/layouts.hpp"
#include "layers/cuda/support.hpp"
#include "layers/tuning.hpp"

namespace cohort::cuda {
namespace {

constexpr std::size_t kMostPerVariant = 8;                    // candidates that are measured
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;  // bytes; more costs batch size

/// An engine configuration of one of the variants.
struct Candidate {
    int variant = 0;
    DnnDescriptor config;
};

std::vector<Candidate> candidates_of(const DnnTarget& target,
                                     const std::vector<PlanVariant>& variants,
                                     const EngineRules& rules) {
    std::vector<Candidate> candidates;
    for (std::size_t v = 0; v < variants.size(); ++v) {
        for (DnnDescriptor& config : engine_configs(target, *variants[v].graph, rules)) {
            candidates.push_back({static_cast<int>(v), std::move(config)});
        }
    }
    return candidates;
}

/// The plan is nullptr when the engine cannot, or wants too much memory.
ChosenPlan make_plan(const DnnTarget& target, const std::vector<PlanVariant>& variants,
                     Candidate& candidate) {
    std::unique_ptr<DnnPlan> plan =
        DnnPlan::make(target, variants[static_cast<std::size_t>(candidate.variant)].graph,
                      std::move(candidate.config));
    if (plan != nullptr && plan->workspace() > kMostWorkspace) {
        plan = nullptr;
    }
    return {std::move(plan), candidate.variant};
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
            case ElementType::kI32: break;
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

/// Seconds that the stream takes for what `queue` queues: one run to warm up, then the fastest of
/// some. Waits for the stream. Errors: DeviceError when the work fails.
template <class F>
double fastest_seconds(Stream& stream, const F& queue) {
    constexpr int kRuns = 5;
    double fastest = 0;
    for (int run = 0; run <= kRuns; ++run) {
        const std::unique_ptr<Event> before = stream.record();
        queue();
        const std::unique_ptr<Event> after = stream.record();
        after->wait();
        const double seconds = after->seconds_since(*before);
        fastest = run <= 1 ? seconds : std::min(fastest, seconds);
    }
    return fastest;
}

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
    return fastest_seconds(support.queue(), [&] {
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
          target_(support.dnn_target()),
          request_(request),
          variants_(request.variants()) {}

    [[nodiscard]] ChosenPlan choose() {
        if (request_.rules.deterministic || request_.tuning == nullptr) {
            return first();
        }
        const std::string key = request_.what + " | " + gpu_facts(support_.device()).name +
                                " | cuDNN " + std::to_string(dnn().version());
        const int known = request_.tuning->find(key);
        std::vector<Candidate> candidates = candidates_of(target_, variants_, request_.rules);
        if (known >= 0 && static_cast<std::size_t>(known) < candidates.size()) {
            ChosenPlan chosen =
                make_plan(target_, variants_, candidates[static_cast<std::size_t>(known)]);
            if (chosen.plan != nullptr) {
                return chosen;
            }
            candidates = candidates_of(target_, variants_, request_.rules);  // one is used up
        }
        int fastest = -1;
        ChosenPlan chosen = measured(candidates, fastest);
        if (chosen.plan == nullptr) {  // too little memory to measure in, or no engine at all
            return first();
        }
        request_.tuning->remember(key, fastest);
        return chosen;
    }

private:
    [[nodiscard]] ChosenPlan first() {
        ChosenPlan chosen = first_plan(target_, variants_, request_.rules);
        if (chosen.plan == nullptr) {
            fail<DeviceError>(
                {.where = request_.what,
                 .what = "cuDNN has no engine for it on " + gpu_facts(support_.device()).name,
                 .hint = "another --precision, or --device cpu"});
        }
        return chosen;
    }

    [[nodiscard]] ChosenPlan measured(std::vector<Candidate>& candidates, int& fastest) {
        std::optional<Ground> ground;
        try {
            ground.emplace(support_, request_.tensors);
        } catch (const OutOfMemory&) {
            return {};
        }
        ChosenPlan best;
        double best_seconds = std::numeric_limits<double>::infinity();
        std::vector<std::size_t> tried(variants_.size(), 0);
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            std::size_t& count = tried[static_cast<std::size_t>(candidates[i].variant)];
            if (count == kMostPerVariant) {
                continue;
            }
            ChosenPlan chosen = make_plan(target_, variants_, candidates[i]);
            if (chosen.plan == nullptr) {
                continue;
            }
            ++count;
            const double seconds = seconds_of(chosen, *ground);
            if (seconds < best_seconds) {
                best_seconds = seconds;
                best = std::move(chosen);
                fastest = static_cast<int>(i);
            }
        }
        return best;
    }

    /// Infinite where the workspace does not fit, the engine refuses to run or loses a NaN.
    double seconds_of(const ChosenPlan& chosen, Ground& ground) {
        try {
            const Buffer workspace =
                support_.device().allocate(std::max<std::size_t>(chosen.plan->workspace(), 1));
            return measure(support_, chosen, variants_[static_cast<std::size_t>(chosen.variant)],
                           ground, workspace.data());
        } catch (const DeviceError&) {
            return std::numeric_limits<double>::infinity();
        }
    }

    Support& support_;
    const DnnTarget& target_;
    const PlanRequest& request_;
    std::vector<PlanVariant> variants_;
};

}  // namespace

ChosenPlan first_plan(const DnnTarget& target, const std::vector<PlanVariant>& variants,
                      const EngineRules& rules) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
        if (variants[v].must_keep_nan) {
            continue;
        }
        for (DnnDescriptor& config : engine_configs(target, *variants[v].graph, rules)) {
            Candidate candidate{static_cast<int>(v), std::move(config)};
            ChosenPlan chosen = make_plan(target, variants, candidate);
            if (chosen.plan != nullptr) {
                return chosen;
            }
        }
    }
    return {};
}

const ChosenPlan& DnnPlans::get(Support& support, const PlanRequest& request) {
    const auto found = plans_.find(request.what);
    if (found != plans_.end()) {
        return found->second;
    }
    use(support.device());
    return plans_.emplace(request.what, Choice(support, request).choose()).first->second;
}

const ChosenPlan& DnnPlans::first(Support& support, const std::string& what,
                                  const EngineRules& rules,
                                  const std::function<std::vector<PlanVariant>()>& variants) {
    const auto found = plans_.find(what);
    if (found != plans_.end()) {
        return found->second;
    }
    use(support.device());
    return plans_.emplace(what, first_plan(support.dnn_target(), variants(), rules)).first->second;
}

}  // namespace cohort::cuda
