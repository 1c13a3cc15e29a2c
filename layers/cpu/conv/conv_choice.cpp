#include "layers/cpu/conv/conv_choice.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "core/log.hpp"
#include "layers/cpu/conv/conv_converted.hpp"
#include "layers/cpu/conv/conv_dnnl.hpp"
#include "layers/cpu/conv/conv_own.hpp"
#include "layers/cpu/conv/winograd_conv.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/tuning.hpp"

namespace cohort {
namespace {

/// One of the algorithms to choose from. The name stands in the file of choices.
template <class Algorithm>
struct ConvCandidate {
    std::string name;
    std::function<std::unique_ptr<Algorithm>()> make;
};

constexpr std::string_view kDirect = "dnnl:direct";
constexpr std::string_view kDirectBf16 = "dnnl:direct:bf16";
constexpr std::string_view kWinograd = "dnnl:winograd";
constexpr std::string_view kOwn = "own";
constexpr std::string_view kOwnWinograd = "own:winograd";

bool winograd_possible(const ConvOptions& o) {
    return o.kernel == 3 && o.stride == 1 && o.dilation == 1 && o.groups == 1 &&
           o.padding == Padding(o.padding.top);
}

/// What measurement finds on AVX-512 machines: Winograd's tiles and channels must be large enough.
bool large_enough_for_winograd(const ConvProblem& problem) {
    constexpr std::int64_t kFewestChannels = 32;
    constexpr std::int64_t kSmallestMap = 4;
    const Shape& x = problem.input.shape;
    return x[0] >= kFewestChannels && problem.options.channels >= kFewestChannels &&
           x[1] >= kSmallestMap && x[2] >= kSmallestMap;
}

/// Ours is faster with few channels too, but not where tiles reach far beyond the map.
bool large_enough_for_own_winograd(const ConvProblem& problem) {
    constexpr std::int64_t kSmallestMap = 3;
    const Shape& x = problem.input.shape;
    const bool whole_map = x[1] == 2 && x[2] == 2 && problem.options.padding == 1;
    return whole_map || (x[1] >= kSmallestMap && x[2] >= kSmallestMap);
}

/// All algorithms, in the order of the fixed rule: the first that a shape has is taken where
/// nothing may be measured. Products of bfloat16 are as fast as Winograd, or faster.
/// @param dnnl  makes oneDNN's in a type  @param own  ours  @param own_winograd  likewise
template <class Algorithm, class Dnnl, class Own, class OwnWinograd>
std::vector<ConvCandidate<Algorithm>> candidates(const ConvProblem& problem, Precision precision,
                                                 const Dnnl& dnnl, const Own& own,
                                                 const OwnWinograd& own_winograd) {
    std::vector<ConvCandidate<Algorithm>> all;
    const auto add = [&](std::string_view name, ElementType type, DnnlConvKind kind) {
        all.push_back({std::string(name), [dnnl, type, kind] { return dnnl(type, kind); }});
    };
    if (precision == Precision::kBf16) {
        add(kDirectBf16, ElementType::kBf16, DnnlConvKind::kDirect);
    }
    const bool winograd = winograd_possible(problem.options);
    const bool large = large_enough_for_winograd(problem);
    if (winograd && large) {
        add(kWinograd, ElementType::kF32, DnnlConvKind::kWinograd);
    }
    const bool own_possible = own_winograd_possible(in_type(problem, ElementType::kF32));
    const bool own_large = large_enough_for_own_winograd(problem);
    if (own_possible && own_large) {
        all.push_back({std::string(kOwnWinograd), own_winograd});
    }
    add(kDirect, ElementType::kF32, DnnlConvKind::kDirect);
    all.push_back({std::string(kOwn), own});
    if (own_possible && !own_large) {
        all.push_back({std::string(kOwnWinograd), own_winograd});
    }
    if (winograd && !large) {
        add(kWinograd, ElementType::kF32, DnnlConvKind::kWinograd);
    }
    return all;
}

/// Memory that a trial reads and writes: zeros.
class TrialMemory {
public:
    TrialMemory(Device& device, std::size_t bytes) : buffer_(device.allocate(bytes)) {
        std::memset(buffer_.data(), 0, bytes);
    }
    [[nodiscard]] float* floats() const { return buffer_.floats(); }
    [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(buffer_.data()); }

private:
    Buffer buffer_;
};

/// The least of four runs. An algorithm whose first run, a cold one, takes half as long again as
/// the best time of another algorithm has no further run: docs/processors.md compares other limits.
/// @param known  that best time
template <class Run>
double best_seconds(const Run& work, double known) {
    constexpr int kRuns = 4;
    constexpr double kHopeless = 1.5;
    const ThreadCpuClock clock;  // what others do on the machine does not decide
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
        const Clock::Seconds start = clock.now();
        work();
        best = std::min(best, (clock.now() - start).count());
        if (best > kHopeless * known) {
            break;
        }
    }
    return best;
}

/// Tensors of a slice, for the trials of all candidates.
struct Trial {
    Trial(const ConvProblem& problem, std::int64_t count, Device& trial_device)
        : device(trial_device),
          samples(count),
          source(device, static_cast<std::size_t>(count) * problem.input.sample_bytes()),
          output(device, static_cast<std::size_t>(count) * problem.output.sample_bytes()) {}

    [[nodiscard]] double seconds(const ConvProduct& algorithm, bool forward, double known) const {
        const TrialMemory weights(device, algorithm.weight_bytes());
        const TrialMemory scratch(device, algorithm.scratch_bytes(samples));
        const TrialMemory& from = forward ? source : output;
        const TrialMemory& to = forward ? output : source;
        return best_seconds(
            [&] {
                algorithm.run(samples, weights.bytes(), from.floats(), to.floats(),
                              scratch.bytes());
            },
            known);
    }
    [[nodiscard]] double seconds(const ConvWeightGradient& algorithm, double known) const {
        const TrialMemory sums(device, algorithm.sum_bytes());
        const TrialMemory scratch(device, algorithm.scratch_bytes(samples));
        return best_seconds(
            [&] {
                algorithm.run(samples, source.floats(), output.floats(), false, sums.bytes(),
                              scratch.bytes());
            },
            known);
    }

    Device& device;
    std::int64_t samples;
    TrialMemory source;
    TrialMemory output;
};

std::string_view name_of(ConvDirection direction) {
    return direction == ConvDirection::kForward ? "forward"
           : direction == ConvDirection::kData  ? "input-gradient"
                                                : "weight-gradient";
}

/// All that a choice depends on.
std::string key_of(const ConvProblem& problem, ConvDirection direction, std::int64_t samples,
                   Precision precision) {
    const ConvOptions& o = problem.options;
    const auto number = [](std::int64_t value) { return std::to_string(value); };
    std::string key = "convolution " + std::string(name_of(direction)) + " " + number(samples) +
                      to_string(problem.input.shape) + number(o.channels) + "k" +
                      to_string(o.kernel) + "s" + to_string(o.stride) + "d" +
                      to_string(o.dilation) + "p" + to_string(o.padding) + "g" + number(o.groups) +
                      "l" + number(problem.input.block) + "," + number(problem.output.block) +
                      (o.bias ? "b " : " ");
    if (precision == Precision::kBf16) {
        key += "bf16 of " + std::string(word_of(problem.input.type)) + " ";
    }
    return key + kernel_machine();
}

/// The first by the rule, or the one of that name; null where it is not there for this shape.
template <class Algorithm>
std::unique_ptr<Algorithm> first_usable(const std::vector<ConvCandidate<Algorithm>>& all,
                                        std::int64_t samples, std::string_view name = "") {
    for (const ConvCandidate<Algorithm>& candidate : all) {
        if (name.empty() || candidate.name == name) {
            std::unique_ptr<Algorithm> made = candidate.make();
            if (made->prepare(samples)) {
                return made;
            }
        }
    }
    return nullptr;
}

/// @param seconds  of a run of an algorithm that is prepared: (algorithm, best known seconds)
template <class Algorithm, class Seconds>
std::unique_ptr<Algorithm> choose(const std::vector<ConvCandidate<Algorithm>>& all,
                                  std::int64_t samples, const KernelContext& context,
                                  const std::string& key, const Seconds& seconds) {
    if (context.deterministic || context.tuning == nullptr) {
        return first_usable(all, samples);
    }
    TuningCache& tuning = *context.tuning;
    const auto remembered = [&]() -> std::unique_ptr<Algorithm> {
        const std::string known = tuning.find_name(key);
        return known.empty() ? nullptr : first_usable(all, samples, known);
    };
    if (auto made = remembered()) {
        return made;
    }
    const MeasuringTurn turn(tuning, key);
    if (auto made = remembered()) {
        return made;
    }
    if (const std::string known = tuning.find_name(key); !known.empty()) {
        log_warn(
            "the remembered algorithm {} does not exist for \"{}\": algorithms are measured again",
            known, key);
    }
    std::unique_ptr<Algorithm> fastest;
    std::string name;
    double least = std::numeric_limits<double>::infinity();
    for (const ConvCandidate<Algorithm>& candidate : all) {
        std::unique_ptr<Algorithm> made = candidate.make();
        if (!made->prepare(samples)) {
            continue;
        }
        const double took = seconds(*made, least);
        if (fastest == nullptr || took < least) {
            least = took;
            name = candidate.name;
            fastest = std::move(made);
        }
    }
    tuning.remember_name(key, name);
    return fastest;
}

}  // namespace

std::unique_ptr<ConvProduct> any_conv(const ConvProblem& problem, ConvDirection direction) {
    constexpr ElementType kType = ElementType::kF32;
    return converted(make_own_conv(in_type(problem, kType), direction), problem, direction, kType);
}

std::unique_ptr<ConvWeightGradient> any_conv_gradient(const ConvProblem& problem) {
    constexpr ElementType kType = ElementType::kF32;
    return converted(make_own_conv_gradient(in_type(problem, kType)), problem, kType);
}

std::unique_ptr<ConvProduct> choose_conv(const ConvProblem& problem, ConvDirection direction,
                                         std::int64_t samples, const KernelContext& context) {
    const auto dnnl = [&](ElementType type, DnnlConvKind kind) {
        return converted(make_dnnl_conv(in_type(problem, type), direction, kind), problem,
                         direction, type);
    };
    const auto own_winograd = [&] {
        constexpr ElementType kType = ElementType::kF32;
        return converted(make_own_winograd(in_type(problem, kType), direction), problem, direction,
                         kType);
    };
    const auto all = candidates<ConvProduct>(
        problem, context.precision, dnnl, [&] { return any_conv(problem, direction); },
        own_winograd);
    return choose(all, samples, context, key_of(problem, direction, samples, context.precision),
                  [&](const ConvProduct& algorithm, double known) {
                      const Trial trial(problem, samples, context.device);
                      return trial.seconds(algorithm, direction == ConvDirection::kForward, known);
                  });
}

std::unique_ptr<ConvWeightGradient> choose_conv_gradient(const ConvProblem& problem,
                                                         std::int64_t samples,
                                                         const KernelContext& context) {
    const auto dnnl = [&](ElementType type, DnnlConvKind kind) {
        return converted(make_dnnl_conv_gradient(in_type(problem, type), kind), problem, type);
    };
    const auto own_winograd = [&] {
        constexpr ElementType kType = ElementType::kF32;
        return converted(make_own_winograd_gradient(in_type(problem, kType)), problem, kType);
    };
    const auto all = candidates<ConvWeightGradient>(
        problem, context.precision, dnnl, [&] { return any_conv_gradient(problem); }, own_winograd);
    return choose(all, samples, context,
                  key_of(problem, ConvDirection::kWeights, samples, context.precision),
                  [&](const ConvWeightGradient& algorithm, double known) {
                      const Trial trial(problem, samples, context.device);
                      return trial.seconds(algorithm, known);
                  });
}

}  // namespace cohort
