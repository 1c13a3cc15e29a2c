// VGG (Simonyan & Zisserman 2015), configurations B (13 layers) and D (16), with batch norm and one
// linear layer, as is usual for small images.
#include <array>
#include <string>

#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

constexpr std::array<std::int64_t, 5> kStageChannels{64, 128, 256, 512, 512};

/// @param convolutions  of each stage
Graph vgg(const std::string& name, const std::array<int, 5>& convolutions, const Shape& input,
          std::int64_t classes) {
    require_image(name, input, 16);
    GraphBuilder net(name, input);
    Value x = net.input();
    for (std::size_t stage = 0; stage < convolutions.size(); ++stage) {
        for (int i = 0; i < convolutions[stage]; ++i) {
            x = net.relu(net.batch_norm(
                net.conv(x, {.channels = kStageChannels[stage], .kernel = 3, .padding = 1})));
        }
        x = halve(net, x);  // images under 32 run out of pixels
    }
    return net.finish(net.linear(net.flatten(x), {.features = classes}));
}

}  // namespace

Graph vgg13(const Shape& input, std::int64_t classes) {
    return vgg("vgg13", {2, 2, 2, 2, 2}, input, classes);
}

Graph vgg16(const Shape& input, std::int64_t classes) {
    return vgg("vgg16", {2, 2, 3, 3, 3}, input, classes);
}

}  // namespace cohort::zoo
