// DenseNet-121 (Huang et al. 2017): every layer reads what all layers of its block before it made.
// Growth 32, bottlenecks of 128 channels, transitions that halve channels and pixels.
#include <string>

#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

constexpr std::int64_t kGrowth = 32;

/// Batch norm and ReLU come before the convolution here.
Value norm_conv(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t kernel) {
    return net.conv(net.relu(net.batch_norm(x)),
                    {.channels = channels, .kernel = kernel, .padding = kernel / 2, .bias = false});
}

/// Small images: one 3x3 convolution, as in the paper's networks for CIFAR.
Value dense_stem(GraphBuilder& net, bool small) {
    if (small) {
        return net.conv(net.input(),
                        {.channels = 2 * kGrowth, .kernel = 3, .padding = 1, .bias = false});
    }
    return net.max_pool(net.relu(conv_norm(net, net.input(), 2 * kGrowth, 7, 2)),
                        {.kernel = 3, .stride = 2, .padding = 1});
}

}  // namespace

Graph densenet121(const Shape& input, std::int64_t classes) {
    require_image("densenet121", input, 8);
    constexpr int kBlocks[] = {6, 12, 24, 16};
    GraphBuilder net("densenet121", input);
    net.scope("stem");
    Value x = dense_stem(net, small_image(input));
    for (int stage = 1; stage <= 4; ++stage) {
        if (stage > 1) {
            net.scope("transition" + std::to_string(stage - 1));
            x = net.average_pool(norm_conv(net, x, net.shape(x)[0] / 2, 1),
                                 {.kernel = 2, .stride = 2});
        }
        for (int block = 0; block < kBlocks[stage - 1]; ++block) {
            net.scope(block_name(stage, block));
            const Value y = norm_conv(net, norm_conv(net, x, 4 * kGrowth, 1), kGrowth, 3);
            x = net.concat({x, y});
        }
    }
    net.scope("head");
    return finish_pooled(net, net.relu(net.batch_norm(x)), classes);
}

}  // namespace cohort::zoo
