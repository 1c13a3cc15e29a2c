// Small networks: linear, multi-layer, two convolutions, and LeNet (LeCun et al. 1998, with ReLU
// and max pooling).
#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

Value flat(GraphBuilder& net, Value x) {
    return net.shape(x).rank() == 1 ? x : net.flatten(x);
}

}  // namespace

Graph softmax(const Shape& input, std::int64_t classes) {
    GraphBuilder net("softmax", input);
    return net.finish(net.linear(flat(net, net.input()), {.features = classes}));
}

Graph mlp(const Shape& input, std::int64_t classes) {
    constexpr std::int64_t kHidden = 256;
    GraphBuilder net("mlp", input);
    Value x = flat(net, net.input());
    for (int layer = 0; layer < 2; ++layer) {
        x = net.relu(net.linear(x, {.features = kHidden}));
    }
    return net.finish(net.linear(x, {.features = classes}));
}

/// Two strided 3x3 convolutions of 8 and 16 channels: small enough for quick experiments.
Graph smallcnn(const Shape& input, std::int64_t classes) {
    require_image("smallcnn", input, 4);
    GraphBuilder net("smallcnn", input);
    Value x =
        net.relu(net.conv(net.input(), {.channels = 8, .kernel = 3, .stride = 2, .padding = 1}));
    x = net.relu(net.conv(x, {.channels = 16, .kernel = 3, .stride = 2, .padding = 1}));
    return net.finish(net.linear(net.flatten(x), {.features = classes}));
}

Graph lenet(const Shape& input, std::int64_t classes) {
    require_image("lenet", input, 12);
    GraphBuilder net("lenet", input);
    Value x = net.relu(net.conv(net.input(), {.channels = 20, .kernel = 5, .padding = 2}));
    x = net.max_pool(x, {.kernel = 2, .stride = 2});
    x = net.relu(net.conv(x, {.channels = 50, .kernel = 5}));
    x = net.max_pool(x, {.kernel = 2, .stride = 2});
    x = net.relu(net.linear(net.flatten(x), {.features = 500}));
    return net.finish(net.linear(x, {.features = classes}));
}

}  // namespace cohort::zoo
