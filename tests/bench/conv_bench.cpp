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
#include <vector>

#include "cohort/core/clock.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/dnnl_version.hpp"
#include "layers/cpu/winograd_conv.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
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
        count_ = bytes / sizeof(float);
        data_ = static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64));
        std::minstd_rand random(static_cast<unsigned>(bytes));
        for (std::size_t i = 0; i < count_; ++i) {
            data_[i] = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
        }
    }
    Floats(const Floats&) = delete;
    ~Floats() { std::free(data_); }
    float* data() { return data_; }
    std::byte* bytes() { return reinterpret_cast<std::byte*>(data_); }

private:
    std::size_t count_ = 0;
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

struct Direct {
    std::string name;
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
    void run() { primitive.execute(dnnl_stream(), arguments); }
};

template <class D>
Direct direct(const D& desc, const std::vector<std::pair<int, Desc>>& tensors) {
    Direct made{desc.impl_info_str(), dnnl::primitive(desc.get()), {}};
    for (const auto& [argument, memory] : tensors) {
        dnnl::memory tensor(memory, dnnl_engine());
        std::fill_n(static_cast<float*>(tensor.get_data_handle()), memory.get_size() / 4, 0.5F);
        made.arguments.emplace(argument, tensor);
    }
    return made;
}

void print(const Case& c, const char* direction, const std::string& name,
           std::pair<double, double> seconds) {
    const double flops = 18.0 * static_cast<double>(c.inputs * c.outputs * c.map * c.map * c.samples);
    fmt::print("{:10} {:4}->{:4} {:3}x{:<3} n{:<3} {:8} own {:6.1f} GF/s  oneDNN {:6.1f} ({})  {:.2f}x\n",
               c.model, c.inputs, c.outputs, c.map, c.map, c.samples, direction,
               flops / seconds.first * 1e-9, flops / seconds.second * 1e-9, name,
               seconds.second / seconds.first);
    std::fflush(stdout);
}

void run_case(const Case& c) {
    const std::int64_t block = preferred_channel_block();
    ConvProblem problem;
    problem.options = {.channels = c.outputs, .kernel = 3, .padding = 1};
    problem.input = {Shape{c.inputs, c.map, c.map}, block, ElementType::kF32};
    problem.output = {Shape{c.outputs, c.map, c.map}, block, ElementType::kF32};
    const Desc source = describe(problem.input, c.samples);
    const Desc output = describe(problem.output, c.samples);
    const auto in = stored_channels(problem.input);
    const auto out = stored_channels(problem.output);
    const Desc any({out, in, 3, 3}, kF32, Tag::any);
    const Desc bias({out}, kF32, Tag::a);
    const dnnl::memory::dims one{1, 1};
    const dnnl::memory::dims zero{0, 0};
    const auto ahead = describe_forward<dnnl::convolution_forward>(
        dnnl::prop_kind::forward_training, kDirect, source, any, bias, output, one, zero, one, one);

    Floats x(source.get_size());
    Floats y(output.get_size());
    Floats weights(static_cast<std::size_t>(c.outputs * c.inputs * 9) * 4);
    Floats some_bias(static_cast<std::size_t>(out) * 4);
    const auto product = [&](ConvDirection direction, auto& other, const char* word) {
        const auto own = make_own_winograd(problem, direction);
        if (!own || !own->prepare(c.samples)) {
            return;
        }
        Floats prepared(own->weight_bytes());
        Floats scratch(own->scratch_bytes(c.samples));
        const bool forward = direction == ConvDirection::kForward;
        const double prepare = seconds_of([&] {
            own->prepare_weights(weights.data(), forward ? some_bias.data() : nullptr,
                                 prepared.bytes());
        });
        print(c, word, other.name,
              best_of(
                  [&] {
                      own->run(c.samples, prepared.bytes(), forward ? x.data() : y.data(),
                               forward ? y.data() : x.data(), scratch.bytes());
                  },
                  [&] { other.run(); }));
        if (std::getenv("PREPARE") != nullptr) fmt::print("   prepare {:.3f} ms\n", prepare * 1e3);
    };
    auto forward = direct(ahead, {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, ahead.weights_desc()}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, output}, {DNNL_ARG_SCRATCHPAD, ahead.scratchpad_desc()}});
    product(ConvDirection::kForward, forward, "forward");

    const auto back = describe_backward<dnnl::convolution_backward_data>(ahead, kDirect, source, any, output, one, zero, one, one);
    auto data = direct(back, {{DNNL_ARG_DIFF_SRC, source}, {DNNL_ARG_WEIGHTS, back.weights_desc()}, {DNNL_ARG_DIFF_DST, output}, {DNNL_ARG_SCRATCHPAD, back.scratchpad_desc()}});
    product(ConvDirection::kData, data, "data");

    const auto wdesc = describe_backward<dnnl::convolution_backward_weights>(ahead, kDirect, source, any, bias, output, one, zero, one, one);
    auto other = direct(wdesc, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_WEIGHTS, wdesc.diff_weights_desc()}, {DNNL_ARG_DIFF_BIAS, bias}, {DNNL_ARG_DIFF_DST, output}, {DNNL_ARG_SCRATCHPAD, wdesc.scratchpad_desc()}});
    const auto own = make_own_winograd_gradient(problem);
    if (own && own->prepare(c.samples)) {
        Floats sums(own->sum_bytes());
        Floats scratch(own->scratch_bytes(c.samples));
        print(c, "weights", other.name,
              best_of(
                  [&] {
                      own->run(c.samples, x.data(), y.data(), false, sums.bytes(), scratch.bytes());
                  },
                  [&] { if (other.name.find("ref") == std::string::npos) other.run(); }));
    }
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    const cohort::Case cases[] = {
        {"ResNet-20", 16, 16, 32, 4},   {"ResNet-20", 32, 32, 16, 8},
        {"ResNet-20", 64, 64, 8, 16},   {"ResNet-20", 3, 16, 32, 4},
        {"VGG", 64, 64, 32, 2},         {"VGG", 64, 128, 16, 4},
        {"VGG", 128, 128, 16, 4},       {"VGG", 128, 256, 8, 16},
        {"VGG", 256, 256, 8, 16},       {"VGG", 256, 512, 4, 64},
        {"VGG", 512, 512, 4, 64},       {"VGG", 512, 512, 2, 64},
        {"AlexNet", 192, 384, 2, 128},  {"AlexNet", 384, 256, 2, 128},
        {"GoogLeNet", 96, 128, 8, 16},  {"GoogLeNet", 112, 224, 4, 32},
        {"GoogLeNet", 160, 320, 4, 32}, {"DenseNet", 128, 32, 8, 16},
        {"ResNet-50", 64, 64, 56, 1},   {"ResNet-50", 512, 512, 7, 8},
    };
    for (const auto& c : cases) {
        if (argc < 2 || std::string(c.model) == argv[1]) {
            cohort::run_case(c);
        }
    }
}
