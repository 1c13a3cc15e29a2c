#include "layers/cuda/dnn/dnn_choice.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/trials.hpp"
#include "layers/cuda/rules/layouts.hpp"
#include "layers/cuda/support.hpp"
#include "layers/tuning.hpp"

namespace cohort::cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;  // bytes; more costs batch size
/// A variant, and an engine configuration of its graph if it has one.
struct Candidate {
    int variant = 0;
    std::optional<EngineConfig> config;

    [[nodiscard]] std::int64_t engine() const { return config ? config->engine : 0; }
};

const PlanVariant& variant_of(const std::vector<PlanVariant>& variants, int index) {
    return variants[static_cast<std::size_t>(index)];
}

void add_candidates(const DnnTarget& target, const std::vector<PlanVariant>& variants, int index,
                    const EngineRules& rules, std::vector<Candidate>& candidates) {
    const PlanVariant& variant = variant_of(variants, index);
    if (variant.graph == nullptr) {
        candidates.push_back({index, std::nullopt});
        return;
    }
    for (EngineConfig& config : engine_configs(target, *variant.graph, rules)) {
        candidates.push_back({index, std::move(config)});
    }
}

/// Finds nothing when the engine cannot, or wants too much memory.
ChosenPlan make_plan(const DnnTarget& target, const std::vector<PlanVariant>& variants,
                     Candidate& candidate) {
    const PlanVariant& variant = variant_of(variants, candidate.variant);
    if (!candidate.config) {
        return {nullptr, candidate.variant, variant.kind};
    }
    std::unique_ptr<DnnPlan> plan =
        DnnPlan::make(target, variant.graph, std::move(candidate.config->descriptor));
    if (plan == nullptr || plan->workspace() > kMostWorkspace) {
        return {};
    }
    return {std::move(plan), candidate.variant, variant.kind};
}

/// Memory to measure on, filled with random numbers.
class Ground {
public:
    Ground(Support& support, const std::vector<DnnTensor>& tensors)
        : stream_(support.queue()), native_(support.stream()), tensors_(tensors) {
        for (const DnnTensor& tensor : tensors) {
            buffers_.push_back(support.device().allocate(tensor_bytes(tensor)));
            pointers_.push_back(buffers_.back().data());
            places_.push_back({tensor.uid, buffers_.back().data()});
            fill_random(stream_, tensor.type, pointers_.back(), buffers_.back().bytes());
        }
    }
    /// Runs the work on an input of NaN. True: the output's middle pixel of the first sample has a
    /// NaN in its first channel.
    [[nodiscard]] bool keeps_nan(const std::function<void()>& work) {
        check(cudaMemsetAsync(pointers_.front(), 0xFF, buffers_.front().bytes(), native_),
              "cudaMemsetAsync");
        work();
        const bool kept = output_is_nan();
        fill_random(stream_, tensors_.front().type, pointers_.front(), buffers_.front().bytes());
        return kept;
    }
    [[nodiscard]] std::span<void* const> pointers() const { return pointers_; }
    [[nodiscard]] std::span<const DnnPlace> places() const { return places_; }

private:
    [[nodiscard]] bool output_is_nan() const {
        const DnnTensor& output = tensors_.back();
        const std::int64_t element =
            output.dims[2] / 2 * output.strides[2] + output.dims[3] / 2 * output.strides[3];
        std::uint32_t bits = 0;
        stream_.copy(&bits,
                     static_cast<const std::byte*>(pointers_.back()) +
                         static_cast<std::size_t>(element) * element_bytes(output.type),
                     element_bytes(output.type));
        stream_.synchronize();
        switch (output.type) {
            case ElementType::kF32: return nan_bits(bits, 8, 23);
            case ElementType::kBf16: return nan_bits(bits, 8, 7);
            case ElementType::kF16: return nan_bits(bits, 5, 10);
            case ElementType::kI32: break;
        }
        return false;
    }

    Stream& stream_;
    cudaStream_t native_;
    const std::vector<DnnTensor>& tensors_;
    std::vector<Buffer> buffers_;
    std::vector<void*> pointers_;
    std::vector<DnnPlace> places_;
};

/// A candidate with its plan.
struct Tried {
    std::size_t candidate = 0;
    ChosenPlan chosen;
    std::unique_ptr<TimedWork> work;
};

/// The workspace that most want; those that want more than there is are left out.
Buffer workspace_for(Device& device, std::vector<Tried>& tried) {
    for (;;) {
        std::size_t most = 1;
        for (const Tried& one : tried) {
            most = std::max(most, one.chosen.workspace());
        }
        try {
            return device.allocate(most);
        } catch (const OutOfMemory&) {
            if (tried.empty()) {
                throw;
            }
            std::erase_if(tried, [most](const Tried& one) {
                return one.chosen.workspace() == most || most == 1;
            });
        }
    }
}

class PlanChoice {
public:
    /// @param choices  of the same operation for other sizes; this one's is added
    PlanChoice(Support& support, const PlanRequest& request, EngineChoices& choices)
        : support_(support),
          target_(support.dnn_target()),
          request_(request),
          choices_(choices),
          variants_(request.variants()) {}

    [[nodiscard]] ChosenPlan choose() {
        if (request_.rules.deterministic || request_.tuning == nullptr) {
            return first();
        }
        for (const auto find :
             {&PlanChoice::remembered, &PlanChoice::of_near_size, &PlanChoice::measured}) {
            ChosenPlan chosen = (this->*find)();
            if (chosen.found()) {
                return chosen;
            }
        }
        return first();  // too little memory to measure in, or no engine at all
    }

private:
    [[nodiscard]] ChosenPlan first() {
        ChosenPlan chosen = first_plan(target_, variants_, request_.rules);
        if (!chosen.found()) {
            fail<DeviceError>(
                {.where = request_.what,
                 .what = "cuDNN has no engine for it on " + gpu_facts(support_.device()).name,
                 .hint = "another --precision, or --device cpu"});
        }
        return chosen;
    }

    /// The variants in turn, so that all of them are tried.
    [[nodiscard]] std::vector<Candidate> candidates() const {
        std::vector<std::vector<Candidate>> each(variants_.size());
        std::size_t most = 0;
        for (std::size_t v = 0; v < each.size(); ++v) {
            add_candidates(target_, variants_, static_cast<int>(v), request_.rules, each[v]);
            most = std::max(most, each[v].size());
        }
        std::vector<Candidate> all;
        for (std::size_t i = 0; i < most; ++i) {
            for (std::vector<Candidate>& own : each) {
                if (i < own.size()) {
                    all.push_back(std::move(own[i]));
                }
            }
        }
        return all;
    }
    [[nodiscard]] bool compiled(const Candidate& candidate) const {
        return variant_of(variants_, candidate.variant).compiled;
    }

    /// Of the tuning cache. The second key is there where the first names a compiled candidate.
    [[nodiscard]] std::string key(bool precompiled) const {
        return request_.what + " n" + std::to_string(request_.samples) +
               (precompiled ? " precompiled" : "") + " | " + gpu_facts(support_.device()).name +
               " | cuDNN " + std::to_string(dnn().version());
    }

    [[nodiscard]] ChosenPlan remembered() {
        const int known = request_.tuning->find(key(false));
        if (known < 0) {
            return {};
        }
        std::vector<Candidate> all = candidates();
        const auto at = static_cast<std::size_t>(known);
        if (at >= all.size()) {
            return {};
        }
        note(all, compiled(all[at]) ? request_.tuning->find(key(true)) : known);
        return make_plan(target_, variants_, all[at]);
    }

    /// The choice for this size, to be used for others.
    void note(const std::vector<Candidate>& all, int index) {
        if (index >= 0 && static_cast<std::size_t>(index) < all.size()) {
            const Candidate& candidate = all[static_cast<std::size_t>(index)];
            choices_[request_.samples] = {candidate.variant, candidate.engine(),
                                          candidate.config ? candidate.config->knobs : ""};
        }
    }

    [[nodiscard]] ChosenPlan of_near_size() {
        const EngineChoice* near = nearest_choice(choices_, request_.samples);
        if (near == nullptr) {
            return {};
        }
        std::vector<Candidate> same;
        add_candidates(target_, variants_, near->variant, request_.rules, same);
        std::erase_if(same, [&](const Candidate& one) { return one.engine() != near->engine; });
        std::stable_partition(same.begin(), same.end(), [&](const Candidate& one) {
            return one.config && one.config->knobs == near->knobs;
        });
        for (Candidate& candidate : same) {
            ChosenPlan chosen = make_plan(target_, variants_, candidate);
            if (chosen.found()) {
                return chosen;
            }
        }
        return {};
    }

    /// Of the processes that share the tuning cache's file one measures, the others find its
    /// choice.
    [[nodiscard]] ChosenPlan measured() {
        const MeasuringTurn turn(*request_.tuning, key(false));
        ChosenPlan chosen = remembered();
        return chosen.found() ? std::move(chosen) : measured_here();
    }

    [[nodiscard]] ChosenPlan measured_here() {
        std::vector<Candidate> all = candidates();
        std::vector<double> seconds;
        std::vector<Tried> tried = make_tried(all);
        try {
            seconds = measure(tried);
        } catch (const OutOfMemory&) {
            return {};
        }
        const int fastest = index_of_least(seconds);
        if (fastest < 0) {
            return {};
        }
        for (std::size_t i = 0; i < tried.size(); ++i) {
            if (compiled(all[tried[i].candidate])) {
                seconds[i] = kInfiniteSeconds;
            }
        }
        const int precompiled = index_of_least(seconds);
        Tried& best = tried[static_cast<std::size_t>(fastest)];
        if (precompiled >= 0) {
            const auto index =
                static_cast<int>(tried[static_cast<std::size_t>(precompiled)].candidate);
            note(all, index);
            if (precompiled != fastest) {
                request_.tuning->remember(key(true), index);
            }
        }
        // The key that other processes wait for is the last to be written.
        request_.tuning->remember(key(false), static_cast<int>(best.candidate));
        return std::move(best.chosen);
    }

    [[nodiscard]] std::vector<Tried> make_tried(std::vector<Candidate>& all) const {
        std::vector<Tried> tried;
        TrialBudget budget;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const bool compiles = compiled(all[i]);
            const std::pair<int, std::int64_t> engine{all[i].variant, all[i].engine()};
            if (!budget.allows(compiles, engine)) {
                continue;
            }
            ChosenPlan chosen = make_plan(target_, variants_, all[i]);
            if (compiles || chosen.found()) {  // a compiler that failed took its time, too
                budget.take(compiles, engine);
            }
            if (chosen.found()) {
                tried.push_back({i, std::move(chosen), nullptr});
            }
        }
        return tried;
    }

    /// Medians of seconds; infinite where an engine refuses to run or loses a NaN. Errors:
    /// OutOfMemory.
    [[nodiscard]] std::vector<double> measure(std::vector<Tried>& tried) const {
        Ground ground(support_, request_.tensors);
        const Buffer workspace = workspace_for(support_.device(), tried);
        for (Tried& one : tried) {
            one.work = std::make_unique<TimedWork>(
                support_.queue(), [this, &ground, &one, space = workspace.data()] {
                    if (one.chosen.plan != nullptr) {
                        one.chosen.plan->run(support_.dnn_handle(), ground.places(), space);
                    }
                    const PlanVariant& variant = variant_of(variants_, one.chosen.variant);
                    if (variant.rest) {
                        variant.rest(ground.pointers());
                    }
                });
        }
        std::vector<double> seconds = seconds_in_turn(
            tried.size(), warm_up_of(gpu_facts(support_.device()).index),
            [&](std::size_t i) { return seconds_of(tried[i], ground, workspace.data()); });
        for (Tried& one : tried) {
            one.work.reset();  // its recording, before the memory
        }
        return seconds;
    }

    double seconds_of(Tried& one, Ground& ground, void* workspace) const {
        const PlanVariant& variant = variant_of(variants_, one.chosen.variant);
        try {
            if (variant.must_keep_nan && !one.work->has_run() && !ground.keeps_nan([&] {
                    one.chosen.plan->run(support_.dnn_handle(), ground.places(), workspace);
                })) {
                return kInfiniteSeconds;
            }
        } catch (const DeviceError&) {
            return kInfiniteSeconds;
        }
        return seconds_or_infinite(*one.work);
    }

    Support& support_;
    const DnnTarget& target_;
    const PlanRequest& request_;
    EngineChoices& choices_;
    std::vector<PlanVariant> variants_;
};

}  // namespace

ChosenPlan first_plan(const DnnTarget& target, const std::vector<PlanVariant>& variants,
                      const EngineRules& rules) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
        if (variants[v].must_keep_nan || variants[v].compiled) {
            continue;
        }
        std::vector<Candidate> candidates;
        add_candidates(target, variants, static_cast<int>(v), rules, candidates);
        for (Candidate& candidate : candidates) {
            ChosenPlan chosen = make_plan(target, variants, candidate);
            if (chosen.found()) {
                return chosen;
            }
        }
    }
    return {};
}

const EngineChoice* nearest_choice(const EngineChoices& choices, std::int64_t samples) noexcept {
    const auto above = choices.lower_bound(samples);
    const EngineChoice* nearest = nullptr;
    double ratio = 2;
    if (above != choices.end() && above->first <= 2 * samples) {
        nearest = &above->second;
        ratio = static_cast<double>(above->first) / static_cast<double>(samples);
    }
    if (above != choices.begin()) {
        const auto& [size, below] = *std::prev(above);
        if (static_cast<double>(samples) <= ratio * static_cast<double>(size)) {
            nearest = &below;
        }
    }
    return nearest;
}

std::shared_ptr<const ChosenPlan> DnnPlans::get(Support& support, const PlanRequest& request) {
    return shared(support, {request.what, request.samples},
                  [&] { return PlanChoice(support, request, choices_[request.what]).choose(); });
}

std::shared_ptr<const ChosenPlan> DnnPlans::shared(Support& support, const Key& key,
                                                   const std::function<ChosenPlan()>& make) {
    if (const auto found = plans_.find(key); found != plans_.end()) {
        if (std::shared_ptr<const ChosenPlan> alive = found->second.lock()) {
            return alive;
        }
    }
    use(support.device());
    std::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
    auto made = std::make_shared<const ChosenPlan>(make());
    plans_[key] = made;
    return made;
}

std::shared_ptr<const ChosenPlan> DnnPlans::first(
    Support& support, const std::string& what, const EngineRules& rules,
    const std::function<std::vector<PlanVariant>()>& variants) {
    return shared(support, {what, 0},
                  [&] { return first_plan(support.dnn_target(), variants(), rules); });
}

}  // namespace cohort::cuda
