// CIFAR ResNets (He et al. 2016, section 4.2, with projection shortcuts) and ResNet-50 (stride in
// the 3x3 convolution).
#include <string>

#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

Value shortcut(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t stride) {
    const bool same = stride == 1 && net.shape(x)[0] == channels;
    return same ? x : conv_norm(net, x, channels, 1, stride);
}

Value basic_block(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t stride) {
    const Value around = shortcut(net, x, channels, stride);
    const Value y = net.relu(conv_norm(net, x, channels, 3, stride));
    return net.relu(net.add(conv_norm(net, y, channels, 3, 1), around));
}

Value bottleneck(GraphBuilder& net, Value x, std::int64_t middle, std::int64_t stride) {
    const Value around = shortcut(net, x, 4 * middle, stride);
    Value y = net.relu(conv_norm(net, x, middle, 1, 1));
    y = net.relu(conv_norm(net, y, middle, 3, stride));
    return net.relu(net.add(conv_norm(net, y, 4 * middle, 1, 1), around));
}

Graph cifar_resnet(const std::string& name, int depth, const Shape& input, std::int64_t classes) {
    require_image(name, input, 8);
    const int blocks = (depth - 2) / 6;
    GraphBuilder net(name, input);
    net.scope("stem");
    Value x = net.relu(conv_norm(net, net.input(), 16, 3, 1));
    std::int64_t channels = 16;
    for (int stage = 1; stage <= 3; ++stage, channels *= 2) {
        for (int block = 0; block < blocks; ++block) {
            net.scope(block_name(stage, block));
            x = basic_block(net, x, channels, stage > 1 && block == 0 ? 2 : 1);
        }
    }
    return finish_pooled(net, x, classes);
}

}  // namespace

Graph resnet20(const Shape& input, std::int64_t classes) {
    return cifar_resnet("resnet20", 20, input, classes);
}

Graph resnet56(const Shape& input, std::int64_t classes) {
    return cifar_resnet("resnet56", 56, input, classes);
}

Graph resnet50(const Shape& input, std::int64_t classes) {
    require_image("resnet50", input, 32);
    constexpr int kBlocks[] = {3, 4, 6, 3};
    GraphBuilder net("resnet50", input);
    net.scope("stem");
    Value x = net.relu(conv_norm(net, net.input(), 64, 7, 2));
    x = net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    std::int64_t middle = 64;
    for (int stage = 1; stage <= 4; ++stage, middle *= 2) {
        for (int block = 0; block < kBlocks[stage - 1]; ++block) {
            net.scope(block_name(stage, block));
            x = bottleneck(net, x, middle, stage > 1 && block == 0 ? 2 : 1);
        }
    }
    return finish_pooled(net, x, classes);
}

}  // namespace cohort::zoo
