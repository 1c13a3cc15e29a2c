// GoogLeNet (Szegedy et al. 2015) with batch norm behind every convolution and two 3x3 convolutions
// in place of the 5x5 (Ioffe & Szegedy 2015), as STAR trains it; no auxiliary heads.
#include <span>
#include <string>

#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

/// Output channels of an inception module's four ways, and of the 1x1 convolutions before the
/// second and the third.
struct Inception {
    std::int64_t single;
    std::int64_t before_triple;
    std::int64_t triple;
    std::int64_t before_double;
    std::int64_t twice;
    std::int64_t pooled;
};

constexpr Inception kStage3[] = {{64, 96, 128, 16, 32, 32}, {128, 128, 192, 32, 96, 64}};
constexpr Inception kStage4[] = {{192, 96, 208, 16, 48, 64},
                                 {160, 112, 224, 24, 64, 64},
                                 {128, 128, 256, 24, 64, 64},
                                 {112, 144, 288, 32, 64, 64},
                                 {256, 160, 320, 32, 128, 128}};
constexpr Inception kStage5[] = {{256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128}};

/// STAR's convolutions have biases, although a batch norm follows.
Value biased(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t kernel,
             std::int64_t stride = 1) {
    return net.relu(net.batch_norm(net.conv(
        x, {.channels = channels, .kernel = kernel, .stride = stride, .padding = kernel / 2})));
}

Value inception(GraphBuilder& net, Value x, const Inception& o) {
    const Value single = biased(net, x, o.single, 1);
    const Value triple = biased(net, biased(net, x, o.before_triple, 1), o.triple, 3);
    Value twice = biased(net, biased(net, x, o.before_double, 1), o.twice, 3);
    twice = biased(net, twice, o.twice, 3);
    const Value pooled = net.max_pool(x, {.kernel = 3, .stride = 1, .padding = 1});
    return net.concat({single, triple, twice, biased(net, pooled, o.pooled, 1)});
}

Value downsample(GraphBuilder& net, Value x) {
    return net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
}

/// Small images: one 3x3 convolution.
Value inception_stem(GraphBuilder& net, bool small) {
    if (small) {
        return biased(net, net.input(), 192, 3);
    }
    const Value x = downsample(net, biased(net, net.input(), 64, 7, 2));
    return downsample(net, biased(net, biased(net, x, 64, 1), 192, 3));
}

}  // namespace

Graph googlenet(const Shape& input, std::int64_t classes) {
    require_image("googlenet", input, 8);
    constexpr std::span<const Inception> kStages[] = {kStage3, kStage4, kStage5};
    GraphBuilder net("googlenet", input);
    net.scope("stem");
    Value x = inception_stem(net, small_image(input));
    for (int stage = 3; stage <= 5; ++stage) {
        int block = 0;
        for (const Inception& module : kStages[stage - 3]) {
            net.scope(block_name(stage, block++));
            x = inception(net, x, module);
        }
        net.scope("stage" + std::to_string(stage));
        x = stage < 5 ? downsample(net, x) : x;
    }
    return finish_pooled(net, x, classes);
}

}  // namespace cohort::zoo
