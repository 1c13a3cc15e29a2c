// MobileNetV2 (Sandler et al. 2018) as STAR trains it: ReLU instead of ReLU6, an expansion in the
// first block too, and a projection around blocks at stride 1 that change the channels.
#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

/// The paper's table 2.
struct InvertedStage {
    std::int64_t expansion;
    std::int64_t channels;
    int blocks;
    std::int64_t stride;  ///< of the first block
};
constexpr InvertedStage kInvertedStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                             {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                             {6, 320, 1, 1}};

/// 3x3 convolution of each channel alone, and its batch norm.
Value depthwise_norm(GraphBuilder& net, Value x, std::int64_t stride) {
    const std::int64_t channels = net.shape(x)[0];
    return net.batch_norm(net.conv(x, {.channels = channels,
                                       .kernel = 3,
                                       .stride = stride,
                                       .padding = 1,
                                       .groups = channels,
                                       .bias = false}));
}

Value inverted_block(GraphBuilder& net, Value x, std::int64_t expansion, std::int64_t channels,
                     std::int64_t stride) {
    const std::int64_t before = net.shape(x)[0];
    Value y = net.relu(conv_norm(net, x, expansion * before, 1, 1));
    y = net.relu(depthwise_norm(net, y, stride));
    if (stride > 1) {
        return conv_norm(net, y, channels, 1, 1);
    }
    const Value around = before == channels ? x : conv_norm(net, x, channels, 1, 1);
    return net.add(conv_norm(net, y, channels, 1, 1), around);
}

}  // namespace

Graph mobilenetv2(const Shape& input, std::int64_t classes) {
    require_image("mobilenetv2", input, 8);
    const bool small = small_image(input);
    GraphBuilder net("mobilenetv2", input);
    net.scope("stem");
    Value x = net.relu(conv_norm(net, net.input(), 32, 3, small ? 1 : 2));
    int stage = 0;
    for (const InvertedStage& made : kInvertedStages) {
        ++stage;
        for (int block = 0; block < made.blocks; ++block) {
            net.scope(block_name(stage, block));
            const bool keeps = block > 0 || (small && stage == 2);
            x = inverted_block(net, x, made.expansion, made.channels, keeps ? 1 : made.stride);
        }
    }
    net.scope("head");
    return finish_pooled(net, net.relu(conv_norm(net, x, 1280, 1, 1)), classes);
}

}  // namespace cohort::zoo
