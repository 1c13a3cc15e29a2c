#include "layers/cuda/dnn/conv_requests.hpp"

#include <array>
#include <utility>

#include "layers/cuda/dnn/choices.hpp"
#include "layers/cuda/kernels/element_kernels.hpp"

namespace cohort::cuda {
namespace {

/// Floats that kernels of our own work with, as a tensor that no graph has.
DnnTensor floats(std::int64_t uid, std::int64_t count) {
    return channels_last(uid, {1, count, 1, 1}, ElementType::kF32);
}

}  // namespace

std::optional<DepthwiseProblem> depthwise_problem(const ConvProblem& p, int multiprocessors) {
    const ConvOptions& o = p.options;
    if (o.groups != p.channels || o.groups != o.channels || o.groups == 1 ||
        o.kernel != PerAxis(kDepthwiseKernel)) {
        return std::nullopt;
    }
    const auto axis = [](std::int64_t image, std::int64_t result, const WindowAxis& window) {
        return DepthwiseAxis{.image = static_cast<int>(image),
                             .result = static_cast<int>(result),
                             .stride = static_cast<int>(window.stride),
                             .padding = static_cast<int>(window.before),
                             .dilation = static_cast<int>(window.dilation)};
    };
    const Window2d window = window_from(o);
    const DepthwiseProblem made{.samples = static_cast<int>(p.samples),
                                .channels = p.channels,
                                .height = axis(p.height, p.out_height, window.height),
                                .width = axis(p.width, p.out_width, window.width),
                                .type = p.type,
                                .multiprocessors = multiprocessors};
    return depthwise_possible(made) ? std::optional(made) : std::nullopt;
}

ConvRequests::Plan ConvRequests::forward(const ConvProblem& wanted, const RowProblem& rows) {
    constexpr std::array kNames{"forward", "forward bias", "forward bias relu", "forward relu"};
    PlanRequest asked = request(kNames[static_cast<std::size_t>(tail())], wanted);
    asked.tensors = {image_of(wanted), filter_of(wanted), bias_of(wanted), result_of(wanted)};
    asked.variants = [this, wanted, rows] {
        const DnnTarget& target = support_.dnn_target();
        const auto rest = tail_alone(rows);
        std::vector<PlanVariant> variants;
        if (const auto own = depthwise(wanted)) {
            variants.push_back({.rest =
                                    [this, own, rest](std::span<void* const> memory) {
                                        depthwise_forward(support_.stream(), *own, memory[0],
                                                          memory[1], memory[3]);
                                        if (rest) {
                                            rest(memory);
                                        }
                                    },
                                .kind = kDepthwise});
        }
        variants.push_back({.graph = forward_graph(target, wanted, ConvTail::kNone),
                            .rest = rest,
                            .kind = kGraph});
        if (has_tail() && worth_fusing(wanted) && !support_.deterministic()) {
            add_if_known(variants, [&] {
                return PlanVariant{.graph = forward_graph(target, wanted, tail()),
                                   .kind = kGraphWithTail,
                                   .must_keep_nan = spec_.relu,
                                   .compiled = true};
            });
        }
        return variants;
    };
    return support_.choices().plans.get(support_, asked);
}

ConvRequests::Plan ConvRequests::data(const ConvProblem& wanted, bool adds) {
    PlanRequest asked = request(adds ? "gradient added to input's" : "gradient of input", wanted);
    asked.tensors = {result_of(wanted), filter_of(wanted), image_of(wanted)};
    if (adds) {
        asked.tensors.push_back(image_of(wanted));
        asked.tensors.back().uid = kMiddle;
    }
    asked.variants = [this, wanted, adds] {
        const DnnTarget& target = support_.dnn_target();
        std::vector<PlanVariant> variants;
        if (const auto own = depthwise(wanted)) {
            variants.push_back({.rest =
                                    [this, own, adds](std::span<void* const> memory) {
                                        depthwise_image_gradient(support_.stream(), *own, memory[0],
                                                                 memory[1], adds, memory[2]);
                                    },
                                .kind = kDepthwise});
        }
        if (!adds) {
            variants.push_back({.graph = data_graph(target, wanted), .kind = kGraph});
            return variants;
        }
        add_if_known(variants, [&] {
            return PlanVariant{.graph = data_graph(target, wanted, true), .kind = kGraph};
        });
        const std::int64_t count = wanted.samples * wanted.height * wanted.width * wanted.channels;
        variants.push_back({.graph = data_graph(target, wanted),
                            .rest =
                                [this, count, type = wanted.type](std::span<void* const> memory) {
                                    add_two_elements(support_.stream(), type, memory[3], memory[3],
                                                     memory[2], count, false);
                                },
                            .kind = kGraphThenAdded});
        return variants;
    };
    return support_.choices().plans.get(support_, asked);
}

ConvRequests::Plan ConvRequests::filter(const ConvProblem& wanted) {
    PlanRequest asked = request("gradient of weight", wanted);
    asked.tensors = {image_of(wanted), result_of(wanted), filter_of(wanted)};
    if (const auto own = depthwise(wanted)) {
        constexpr std::int64_t kUnused = 100;  // a number that no graph has
        const std::int64_t filter_elements = own->channels * kDepthwiseKernel * kDepthwiseKernel;
        asked.tensors.push_back(floats(
            kUnused, static_cast<std::int64_t>(depthwise_partial_bytes(*own) / sizeof(float))));
        asked.tensors.push_back(floats(kUnused + 1, filter_elements));
    }
    asked.variants = [this, wanted] {
        std::vector<PlanVariant> variants;
        if (const auto own = depthwise(wanted)) {
            variants.push_back({.rest =
                                    [this, own](std::span<void* const> memory) {
                                        depthwise_filter_gradient(support_.stream(), *own,
                                                                  memory[0], memory[1],
                                                                  static_cast<float*>(memory[3]),
                                                                  static_cast<float*>(memory[4]));
                                    },
                                .kind = kDepthwise});
        }
        variants.push_back({.graph = filter_graph(support_.dnn_target(), wanted), .kind = kGraph});
        return variants;
    };
    return support_.choices().plans.get(support_, asked);
}

ConvTail ConvRequests::tail() const {
    return spec_.options.bias ? (spec_.relu ? ConvTail::kBiasRelu : ConvTail::kBias)
           : spec_.relu       ? ConvTail::kRelu
                              : ConvTail::kNone;
}

PlanRequest ConvRequests::request(const std::string& what, const ConvProblem& wanted) const {
    const Precision precision = support_.precision();
    return {
        .what = "conv " + what + " " + problem_text(wanted) + " " + std::string(word_of(precision)),
        .samples = wanted.samples,
        .rules = {.tensor_cores = precision != Precision::kF32,
                  .deterministic = support_.deterministic()},
        .variants = {},
        .tensors = {},
        .tuning = tuning_};
}

std::optional<DepthwiseProblem> ConvRequests::depthwise(const ConvProblem& wanted) const {
    return depthwise_problem(wanted, gpu_facts(support_.device()).multiprocessors);
}

std::function<void(std::span<void* const>)> ConvRequests::tail_alone(const RowProblem& rows) {
    if (!has_tail()) {
        return {};
    }
    return [this, rows](std::span<void* const> memory) {
        const auto* sums = static_cast<const float*>(memory[2]);
        add_bias_relu(support_.stream(), rows, spec_.options.bias ? sums : nullptr, spec_.relu,
                      memory[3]);
    };
}

}  // namespace cohort::cuda
