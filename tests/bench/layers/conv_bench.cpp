// Own convolutions beside oneDNN's direct ones on one thread: GF/s counted as if direct, and the
// ratio. The two run in turn, each by the processor time of its thread, so that what others do on
// the machine weighs on both alike.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "layers/cpu/conv/winograd_conv.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/dnnl_version.hpp"
#include "layers/cpu/elements.hpp"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

struct Case {
    const char* model;
    std::int64_t inputs;
    std::int64_t outputs;
    std::int64_t map;
    std::int64_t samples;
};

/// Random values in memory that begins at a cache line.
class Floats {
public:
    explicit Floats(std::size_t bytes) {
        data_ = static_cast<float*>(std::aligned_alloc(64, padded(bytes)));
        std::minstd_rand random(static_cast<unsigned>(bytes));
        for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
            data_[i] = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
        }
    }
    Floats(const Floats&) = delete;
    Floats& operator=(const Floats&) = delete;
    ~Floats() { std::free(data_); }
    [[nodiscard]] float* data() const { return data_; }
    [[nodiscard]] std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }

private:
    float* data_ = nullptr;
};

double seconds_of(const std::function<void()>& work) {
    const ThreadCpuClock clock;
    const auto start = clock.now();
    work();
    return (clock.now() - start).count();
}

/// The better of several runs of each, in turn.
std::pair<double, double> best_of(const std::function<void()>& a, const std::function<void()>& b) {
    constexpr int kFewest = 5;
    constexpr double kEnough = 0.4;  // seconds
    std::pair<double, double> best{std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()};
    double spent = 0;
    for (int run = 0; run < kFewest || spent < kEnough; ++run) {
        const double first = seconds_of(a);
        const double second = seconds_of(b);
        best.first = std::min(best.first, first);
        best.second = std::min(best.second, second);
        spent += first + second;
    }
    return best;
}

/// A direction of oneDNN's direct convolution, with memory of its own.
struct Direct {
    template <class Description>
    Direct(const Description& desc, const std::vector<std::pair<int, Desc>>& tensors)
        : name(desc.impl_info_str()), primitive(desc.get()) {
        for (const auto& [argument, memory] : tensors) {
            const dnnl::memory tensor(memory, dnnl_engine());
            std::fill_n(static_cast<float*>(tensor.get_data_handle()),
                        memory.get_size() / sizeof(float), 0.5F);
            arguments.emplace(argument, tensor);
        }
        const Desc scratch = desc.scratchpad_desc();
        arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratch, dnnl_engine()));
    }
    /// A reference implementation takes seconds and is nothing to compare with.
    void run() const {
        if (!is_reference(name)) {
            primitive.execute(dnnl_stream(), arguments);
        }
    }

    std::string name;
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
};

class Comparison {
public:
    explicit Comparison(const Case& shape) : case_(shape) {
        const std::int64_t block = preferred_channel_block();
        problem_.options = {.channels = shape.outputs, .kernel = 3, .padding = 1};
        problem_.input = {Shape{shape.inputs, shape.map, shape.map}, block, ElementType::kF32};
        problem_.output = {Shape{shape.outputs, shape.map, shape.map}, block, ElementType::kF32};
    }

    void run() const {
        const Desc source = describe(problem_.input, case_.samples);
        const Desc output = describe(problem_.output, case_.samples);
        const std::int64_t outputs = stored_channels(problem_.output);
        const Desc any({outputs, stored_channels(problem_.input), 3, 3}, kF32, Tag::any);
        const Desc bias({outputs}, kF32, Tag::a);
        const Dims one{1, 1};
        const Dims zero{0, 0};
        const auto forward = describe_forward<dnnl::convolution_forward>(
            dnnl::prop_kind::forward_training, kDirect, source, any, bias, output, one, zero, one,
            one);
        product(ConvDirection::kForward, "forward",
                {forward,
                 {{DNNL_ARG_SRC, source},
                  {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                  {DNNL_ARG_BIAS, bias},
                  {DNNL_ARG_DST, output}}});
        const auto data = describe_backward<dnnl::convolution_backward_data>(
            forward, kDirect, source, any, output, one, zero, one, one);
        product(ConvDirection::kData, "data",
                {data,
                 {{DNNL_ARG_DIFF_SRC, source},
                  {DNNL_ARG_WEIGHTS, data.weights_desc()},
                  {DNNL_ARG_DIFF_DST, output}}});
        const auto weights = describe_backward<dnnl::convolution_backward_weights>(
            forward, kDirect, source, any, bias, output, one, zero, one, one);
        gradient({weights,
                  {{DNNL_ARG_SRC, source},
                   {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
                   {DNNL_ARG_DIFF_BIAS, bias},
                   {DNNL_ARG_DIFF_DST, output}}});
    }

private:
    [[nodiscard]] Floats tensor(const TensorFormat& format) const {
        return Floats(static_cast<std::size_t>(case_.samples) * format.sample_bytes());
    }

    void product(ConvDirection direction, const char* word, const Direct& other) const {
        const bool forward = direction == ConvDirection::kForward;
        const auto own = make_own_winograd(problem_, direction);
        if (!own_winograd_possible(problem_) || !own->prepare(case_.samples)) {
            return;
        }
        const auto count = static_cast<std::size_t>(case_.outputs * case_.inputs * 9);
        const Floats weights(count * sizeof(float));
        const Floats prepared(own->weight_bytes());
        const Floats scratch(own->scratch_bytes(case_.samples));
        const Floats from = tensor(forward ? problem_.input : problem_.output);
        const Floats to = tensor(forward ? problem_.output : problem_.input);
        own->prepare_weights(weights.data(), forward ? weights.data() : nullptr, prepared.bytes());
        print(word, other,
              best_of(
                  [&] {
                      own->run(case_.samples, prepared.bytes(), from.data(), to.data(),
                               scratch.bytes());
                  },
                  [&] { other.run(); }));
    }

    void gradient(const Direct& other) const {
        const auto own = make_own_winograd_gradient(problem_);
        if (!own_winograd_possible(problem_) || !own->prepare(case_.samples)) {
            return;
        }
        const Floats sums(own->sum_bytes());
        const Floats scratch(own->scratch_bytes(case_.samples));
        const Floats source = tensor(problem_.input);
        const Floats output_gradient = tensor(problem_.output);
        print("weights", other,
              best_of(
                  [&] {
                      own->run(case_.samples, source.data(), output_gradient.data(), false,
                               sums.bytes(), scratch.bytes());
                  },
                  [&] { other.run(); }));
    }

    void print(const char* direction, const Direct& other, std::pair<double, double> best) const {
        const double flops = 18.0 * static_cast<double>(case_.inputs * case_.outputs * case_.map *
                                                        case_.map * case_.samples);
        fmt::print("{:10} {:4} -> {:3}, {:2}x{:<2}, {:3} samples, {:7}: own {:6.1f} GF/s",
                   case_.model, case_.inputs, case_.outputs, case_.map, case_.map, case_.samples,
                   direction, flops / best.first * 1e-9);
        if (is_reference(other.name)) {
            fmt::print(", oneDNN has only {}\n", other.name);
        } else {
            fmt::print(", oneDNN {:6.1f} ({}): {:.2f}x\n", flops / best.second * 1e-9, other.name,
                       best.second / best.first);
        }
    }

    Case case_;
    ConvProblem problem_;
};

// Slices as the executor cuts them, or nearly so.
constexpr Case kCases[] = {
    {"ResNet-20", 3, 16, 32, 4},    {"ResNet-20", 16, 16, 32, 4},   {"ResNet-20", 32, 32, 16, 8},
    {"ResNet-20", 64, 64, 8, 16},   {"VGG", 64, 64, 32, 2},         {"VGG", 64, 128, 16, 4},
    {"VGG", 128, 128, 16, 4},       {"VGG", 128, 256, 8, 16},       {"VGG", 256, 256, 8, 16},
    {"VGG", 256, 512, 4, 64},       {"VGG", 512, 512, 4, 64},       {"VGG", 512, 512, 2, 64},
    {"AlexNet", 192, 384, 2, 128},  {"AlexNet", 384, 256, 2, 128},  {"GoogLeNet", 96, 128, 8, 16},
    {"GoogLeNet", 112, 224, 4, 32}, {"GoogLeNet", 160, 320, 4, 32}, {"DenseNet", 128, 32, 8, 16},
    {"ResNet-50", 64, 64, 56, 1},   {"ResNet-50", 512, 512, 7, 8},
};

}  // namespace
}  // namespace cohort

// The argument names one model; without it all are run.
int main(int argc, char** argv) {
    for (const cohort::Case& shape : cohort::kCases) {
        if (argc < 2 || std::string(shape.model) == argv[1]) {
            cohort::Comparison(shape).run();
        }
    }
}
