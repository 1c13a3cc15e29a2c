#include "layers/cuda/dnn/attention_plans.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/tensor/cuda.hpp"
#include "layers/cuda/dnn/choices.hpp"

namespace cohort::cuda {
namespace {

/// Some elements of 16 bits further.
void* after(const float* tensor, std::int64_t elements) {
    return reinterpret_cast<std::byte*>(const_cast<float*>(tensor)) + 2 * elements;
}

}  // namespace

AttentionPlans::AttentionPlans(const AttentionSpec& spec, const KernelContext& context)
    : training_(context.training),
      deterministic_(context.deterministic),
      unseen_(-std::numeric_limits<float>::infinity()),
      support_(support_of(context)) {
    const TensorFormat& joined = context.inputs.at(0);
    sample_ = {.samples = 1,
               .positions = joined.shape[0],
               .heads = spec.options.heads,
               .width = joined.shape[1] / 3 / spec.options.heads,
               .causal = spec.options.causal,
               .type = joined.type};
    scale_ = 1.0F / std::sqrt(static_cast<float>(sample_.width));
}

bool AttentionPlans::possible() const noexcept {
    return sample_.type != ElementType::kF32 && sample_.width % 8 == 0;
}

void AttentionPlans::prepare(std::int64_t samples) {
    if (!possible() || plans_.contains(samples)) {
        return;
    }
    const AttentionProblem problem = problem_of(samples);
    const EngineRules rules{.deterministic = deterministic_};
    const auto find = [&](const char* what, const auto& variants) {
        return support_.choices().plans.first(support_, problem_text(problem) + what, rules,
                                              variants);
    };
    const DnnTarget& target = support_.dnn_target();
    Plans made;
    made.forward = find(" forward", [&] {
        std::vector<PlanVariant> variants;
        add_if_known(variants, [&] {
            return PlanVariant{.graph = attention_forward_graph(target, problem)};
        });
        return variants;
    });
    if (training_) {
        constexpr int kSummed = 1;
        made.backward = find(" backward", [&] {
            std::vector<PlanVariant> variants;
            if (!deterministic_) {
                add_if_known(variants, [&] {
                    return PlanVariant{.graph = attention_backward_graph(target, problem, true),
                                       .kind = kSummed};
                });
            }
            add_if_known(variants, [&] {
                return PlanVariant{.graph = attention_backward_graph(target, problem, false)};
            });
            return variants;
        });
        made.summed = made.backward->found() && made.backward->kind == kSummed;
    }
    plans_.emplace(samples, std::move(made));
}

bool AttentionPlans::has_forward(std::int64_t samples) const {
    const auto found = plans_.find(samples);
    return found != plans_.end() && found->second.forward->found();
}
bool AttentionPlans::has_backward(std::int64_t samples) const {
    const auto found = plans_.find(samples);
    return found != plans_.end() && found->second.backward != nullptr &&
           found->second.backward->found();
}

std::size_t AttentionPlans::forward_scratch(std::int64_t samples) const {
    return column_bytes(samples) + plans_.at(samples).forward->workspace();
}
std::size_t AttentionPlans::backward_scratch(std::int64_t samples) const {
    const auto width = static_cast<std::size_t>(sample_.width);
    return column_bytes(samples) * (1 + width) + plans_.at(samples).backward->workspace();
}

void AttentionPlans::forward(const KernelSlice& slice) const {
    const std::int64_t features = sample_.features();
    void* divisors = slice.saved != nullptr ? slice.saved : slice.scratch;
    const std::array places{DnnPlace{kQueries, after(slice.inputs[0], 0)},
                            DnnPlace{kKeys, after(slice.inputs[0], features)},
                            DnnPlace{kValues, after(slice.inputs[0], 2 * features)},
                            DnnPlace{kAttended, slice.output},
                            DnnPlace{kDivisors, divisors},
                            DnnPlace{kScale, const_cast<float*>(&scale_)},
                            DnnPlace{kUnseen, const_cast<float*>(&unseen_)}};
    plans_.at(slice.samples)
        .forward->plan->run(support_.dnn_handle(), places,
                            slice.scratch + column_bytes(slice.samples));
}

void AttentionPlans::backward(const KernelSlice& slice) const {
    const Plans& plans = plans_.at(slice.samples);
    const std::int64_t features = sample_.features();
    const std::size_t column = column_bytes(slice.samples);
    const std::size_t sums = column * static_cast<std::size_t>(sample_.width);
    std::byte* queries_sums = slice.scratch + column;
    if (plans.summed) {
        check(cudaMemsetAsync(queries_sums, 0, sums, support_.stream()), "cudaMemsetAsync");
    }
    const float* gradient = slice.input_gradients[0];
    const std::array places{DnnPlace{kQueries, after(slice.inputs[0], 0)},
                            DnnPlace{kKeys, after(slice.inputs[0], features)},
                            DnnPlace{kValues, after(slice.inputs[0], 2 * features)},
                            DnnPlace{kAttended, slice.output},
                            DnnPlace{kDivisors, slice.saved},
                            DnnPlace{kAttendedGradient, slice.output_gradient},
                            DnnPlace{kQueriesGradient, after(gradient, 0)},
                            DnnPlace{kKeysGradient, after(gradient, features)},
                            DnnPlace{kValuesGradient, after(gradient, 2 * features)},
                            DnnPlace{kGradientSums, slice.scratch},
                            DnnPlace{kQueriesSums, queries_sums},
                            DnnPlace{kScale, const_cast<float*>(&scale_)},
                            DnnPlace{kUnseen, const_cast<float*>(&unseen_)},
                            DnnPlace{kUnchanged, const_cast<float*>(&unchanged_)}};
    plans.backward->plan->run(support_.dnn_handle(), places, queries_sums + sums);
}

AttentionProblem AttentionPlans::problem_of(std::int64_t samples) const {
    AttentionProblem problem = sample_;
    problem.samples = samples;
    return problem;
}

std::size_t AttentionPlans::column_bytes(std::int64_t samples) const {
    return padded(static_cast<std::size_t>(samples * sample_.heads * sample_.positions) *
                  sizeof(float));
}

}  // namespace cohort::cuda
